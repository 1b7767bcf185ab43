"""What the files for others name of this project is there: files and folders, make's targets, commands and options, reports."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from conformance.cli.commands import command_parser
from deploy import release
from reports.folder import write_all
from tests.reports.sample_report import sample_report

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
FILES = [path for name in ("ci", "image", "krew", "sockets") for path in sorted((DEPLOY / name).rglob("*")) if path.suffix != ".pyc"]
TEXTS = {path.relative_to(DEPLOY).as_posix(): path.read_text(encoding="utf-8") for path in FILES if path.is_file()}
WRAPPERS = ("ci/action/action.yml", "ci/gitlab-component.yaml", "ci/release.yaml")
"""They call the suite themselves; the others do by ``ci/upgrade-gate.sh``, which has its own tests."""


def found(pattern: str) -> set[tuple[str, str]]:
    return {(name, match) for name, text in TEXTS.items() for match in re.findall(pattern, text, re.MULTILINE)}


def test_every_file_and_folder_is_there() -> None:
    named = found(r"(?<![\w/.$-])((?:deploy|docs)/[\w./-]*\w)")
    assert len({path for _, path in named}) > 5
    assert {(name, path) for name, path in named if not (ROOT / path).exists()} == set()


def test_make_has_every_target() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {(name, target) for name, words in found(r"(?:`|^\s*(?:run: )?(?:sudo \S+ )?)make ([a-z -]+)") for target in words.split()}
    assert {target for _, target in named} >= {"setup", "helm", "packages", "image", "sbom"}
    assert {target for _, target in named} <= set(targets)


def lines(name: str) -> Iterator[str]:
    """The lines of a wrapper that call the suite, with the defaults of its inputs."""
    (first, *others) = yaml.safe_load_all(TEXTS[name])
    inputs: dict[str, Any] = first.get("inputs") or first.get("spec", {}).get("inputs") or {}
    given = {key: str(one.get("default", "x")) for key, one in inputs.items()}
    jobs = [first.get("runs"), *first.get("jobs", {}).values(), *(job for document in others for job in document.values())]
    for job in filter(None, jobs):
        scripts = [step.get("run", "") for step in job.get("steps", ())] + job.get("script", [])
        for line in "\n".join(scripts).splitlines():
            if match := re.search(r"(?:gpu-conformance|\$PROGRAM)\"? ([a-z].*)", line):
                words = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda one: given[one[1]], match[1])
                yield re.split(r" \|\| |\)", words.replace("$OPTIONS", given.get("options", "")))[0]


@pytest.mark.parametrize("name", WRAPPERS)
def test_the_suite_understands_what_a_wrapper_calls(name: str) -> None:
    called = [shlex.split(line) for line in lines(name)]
    assert [words[0] for words in called] == ["run"]
    for command, *rest in called:
        command_parser(command).parse_args(rest)


def test_a_release_calls_packages_with_options_that_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    (given,) = re.findall(r'make packages ARGS="([^"]*)"', TEXTS["ci/release.yaml"])
    with pytest.raises(SystemExit):
        release.main(["--help"])
    assert set(re.findall(r"--[a-z]+", given)) <= set(re.findall(r"--[a-z]+", capsys.readouterr().out))


def test_a_run_writes_every_report_that_is_named(tmp_path: Path) -> None:
    named = found(r"(?:gpu-conformance-report|before|after|\$\w+)/(\w+\.(?:xml|json|md|html|prom))")
    write_all(sample_report(), tmp_path)
    assert {file for _, file in named} >= {"junit.xml", "report.json"}
    assert {file for _, file in named if not (tmp_path / file).is_file()} - {"summary.md"} == set()
