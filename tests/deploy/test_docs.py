"""The commands and files that the pages name are there."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest
import yaml

from conformance.cli.commands import command_parser
from deploy import workload
from deploy.packages import OVERLAYS, schema
from tests.kubectl import needs_kubectl

ROOT = Path(__file__).parents[2]
PAGES = {name: (ROOT / "docs" / name).read_text() for name in ("in-cluster.md", "security.md")}


def commands() -> Iterator[str]:
    for text in PAGES.values():
        for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
            yield from (line.partition(" #")[0].strip() for line in block.replace("\\\n", " ").splitlines() if line.strip())


OURS = [line for line in commands() if line.startswith("gpu-conformance ")]
MAKE = [line for line in commands() if line.startswith("make ")]


@pytest.mark.parametrize("line", OURS)
def test_the_suite_understands_its_commands(line: str) -> None:
    _, name, *rest = shlex.split(line)
    command_parser(name).parse_args(rest)


@pytest.mark.parametrize("line", MAKE)
def test_make_has_the_target(line: str) -> None:
    assert re.search(rf"^{shlex.split(line)[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_pages_have_commands_of_both() -> None:
    assert len(OURS) >= 2
    assert len(MAKE) >= 3


def test_helm_s_options_are_values() -> None:
    (line,) = (line for line in commands() if line.startswith("helm install"))
    assert (ROOT / shlex.split(line)[3]).is_dir()
    assert {option.partition("=")[0] for option in re.findall(r"--set (\S+)", line)} <= set(workload.DEFAULTS)


def test_values_in_the_page_are_ones_that_the_chart_takes() -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGES["in-cluster.md"], re.DOTALL)]
    of_chart = [block for block in blocks if "access" in block]
    assert len(of_chart) > 1
    for values in of_chart:
        jsonschema.validate(values, {**schema(), "required": []})
    for name in re.findall(r"`results\.(\w+)`", PAGES["in-cluster.md"]):
        assert name in workload.DEFAULTS["results"]


@needs_kubectl
def test_the_kustomization_of_the_page_names_another_image(tmp_path: Path) -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGES["in-cluster.md"], re.DOTALL)]
    (own,) = (block for block in blocks if "resources" in block)
    own["resources"] = [os.path.relpath(ROOT / path, tmp_path) for path in own["resources"]]
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(own))
    done = subprocess.run(["kubectl", "kustomize", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert re.findall(r"image: (.*)", done.stdout) == ["REGISTRY/gpu-conformance:0.1.0"]


def test_the_page_names_every_overlay() -> None:
    table = PAGES["in-cluster.md"].partition("| overlay of")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([a-z-]+)`", table)) - {"deploy/kustomize/overlays"} == set(OVERLAYS)
