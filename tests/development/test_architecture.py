"""docs/architecture.md tells the way of a verdict step by step: each step names code that exists, and the way stays short."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
STEP = re.compile(r"`([\w/]+\.py)` `(\w+)`")


def lives() -> dict[str, str]:
    """The sections that tell a life, by heading."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return {title: text for title, _, text in (section.partition("\n") for section in sections) if title.startswith("The life of")}


def names(path: Path) -> set[str]:
    """Every function and class that a file defines."""
    defining = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, defining)}


def lost(text: str) -> list[str]:
    """Steps whose file or function is not there."""
    steps = STEP.findall(text)
    return [f"{file} {name}" for file, name in steps if not (ROOT / file).is_file() or name not in names(ROOT / file)]


@pytest.mark.parametrize("title", lives())
def test_each_life_has_twelve_steps_that_exist(title: str) -> None:
    text = lives()[title]
    assert re.findall(r"^(\d+)\. ", text, flags=re.MULTILINE) == [str(number) for number in range(1, 13)]
    assert lost(text) == []


def test_a_verdict_passes_through_sixteen_files_at_most() -> None:
    (text,) = (text for title, text in lives().items() if "FENCE-01" in title)
    assert 12 <= len({file for file, _ in STEP.findall(text)}) <= 16


def test_a_step_that_is_gone_is_found() -> None:
    assert lost("1. `fixtures/nowhere.py` `x`") == ["fixtures/nowhere.py x"]
    assert lost("1. `fixtures/verdict/findings.py` `no_such`") == ["fixtures/verdict/findings.py no_such"]


def shown_verdicts(path: Path) -> list[str]:
    """Tables of a file that give two verdicts or more a text of their own, as ``line``."""
    tables = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Dict)]
    return [
        f"{path.relative_to(ROOT)}:{table.lineno}"
        for table in tables
        if sum(
            isinstance(key, ast.Attribute)
            and ast.unparse(key).startswith("Verdict.")
            and isinstance(value, ast.Constant)
            and isinstance(value.value, str)
            for key, value in zip(table.keys, table.values, strict=True)
        )
        > 1
    ]


def test_words_and_signs_of_verdicts_stand_in_one_table() -> None:
    files = [file for folder in ("conformance", "chaos", "fixtures", "reports") for file in (ROOT / folder).rglob("*.py")]
    assert [found for file in files for found in shown_verdicts(file)] == []


# -- A run starts within a second only while it imports nothing that it may not need


HEAVY = ("kubernetes", "pydantic", "requests", "jsonschema", "jinja2")
_CODE = "import json, sys, conformance.plugin.hooks, chaos.surface.plugin; print(json.dumps(sorted(sys.modules)))"


CHAOS = ("chaos.engine", "chaos.catalogue", "chaos.ledger", "chaos.activities")


def test_a_run_that_begins_has_imported_no_large_library_that_it_may_not_need() -> None:
    done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, check=True)
    assert not {*HEAVY, *CHAOS} & {*json.loads(done.stdout)}
