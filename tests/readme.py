"""The commands of README.md, as a reader copies them."""

import re
import shlex

from tests.endtoend.runs import ROOT

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
LANGUAGES = set(re.findall(r"^```(\w*)\n.*?^```$", TEXT, re.DOTALL | re.MULTILINE))
SAVING = next(block for block in BLOCKS if "kubectl api-resources" in block)
"""It has a test of its own (``test_snapshots``)."""

GRANTING = next(block for block in BLOCKS if "kubectl create clusterrole" in block)
"""It needs a cluster with RBAC (``test_readme_rights``)."""

RUN = [block for block in BLOCKS if block not in (SAVING, GRANTING)]


def lines(block: str) -> list[str]:
    """The commands of a block, without comments."""
    found = [line.strip() for line in block.splitlines()]
    return [line for line in found if line and not line.startswith("#")]


def targets() -> list[list[str]]:
    """The words after ``make`` of each command that calls it."""
    return [shlex.split(line, comments=True)[1:] for block in RUN for line in lines(block) if line.startswith("make ")]


def commands() -> list[str]:
    """Every other command, in order: they build on each other."""
    return [line for block in RUN for line in lines(block) if not line.startswith("make ")]
