"""Advice: every cause keeps the rules, its commands name what is there, and each of them reads or mends."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from conformance.causes import CauseError, is_known, is_reading, load_causes
from fixtures.simulator.config.scenario import defect_names, load_defect
from fixtures.text import yaml_text
from fixtures.verdict.record import Result, SubjectResult
from reports.causes import found_causes
from tests.core.judged_defects import judged, report_of, results_of
from tests.kubectl import KUBECTL, needs_kubectl
from tests.served import served
from tests.tables import each_row

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
ENTRY = {"title": "A node is odd", "remedy": "act", "advice": "Look at the node that is odd.", "look": ["kubectl describe node NODE"]}
CORDON = [{"run": "kubectl cordon NODE", "does": "keeps new pods off"}]


@each_row
def test_a_cause_whose_advice_could_harm_is_refused(tmp_path: Path, wrong: Mapping[str, object], why: str) -> None:
    (tmp_path / "causes.yaml").write_text(yaml.safe_dump({"NodeOdd": {**ENTRY, **wrong}}))
    with pytest.raises(CauseError, match=why):
        load_causes.__wrapped__(tmp_path)
    (tmp_path / "causes.yaml").write_text(yaml.safe_dump({"NodeOdd": ENTRY}))
    assert list(load_causes.__wrapped__(tmp_path)) == ["NodeOdd"]


def _literals() -> Iterator[tuple[str, str]]:
    """Each text that the suite's code gives as a cause or as the reason of what is inconclusive, with its file."""
    for path in sorted(CONFORMANCE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            given = [keyword.value for keyword in call.keywords if keyword.arg == "cause"]
            if isinstance(call.func, ast.Name) and call.func.id == "Inconclusive":
                given += call.args[:1]
            for node in given:
                for value in ast.walk(node):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield path.name, value.value
    for path in sorted(CONFORMANCE.rglob("*.yaml")):
        yield from ((path.name, code) for code in re.findall(r"^[ -]*cause: (\w+)$", path.read_text(encoding="utf-8"), re.MULTILINE))


def test_every_cause_that_code_names_stands_in_a_file() -> None:
    assert [(name, code) for name, code in _literals() if not is_known(code)] == []


def test_no_file_has_a_cause_twice() -> None:
    for path in CONFORMANCE.rglob("causes.yaml"):
        yaml_text.read(path)  # refuses a key that stands twice, which the faster reader of causes takes


def test_every_cause_is_used_and_every_requirement_names_known_ones() -> None:
    sources = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("conformance", "fixtures/verdict", "fixtures/probes")
        for path in (CONFORMANCE.parent / folder).rglob("*.py")
    )
    named = {code for _, code in _literals()}
    assert [code for code in load_causes() if code not in named and f'"{code}"' not in sources] == []


def _first_of_each() -> dict[str, tuple[str, str, str]]:
    """By template of a command: a defect in which it is offered, the code of its cause, and the first line."""
    found: dict[str, tuple[str, str, str]] = {}
    for name in defect_names():
        for one in found_causes(report_of(name)):
            if one.cause is None:
                continue
            templates = [*one.cause.look, *(change.run for change in one.cause.changes)]
            for command in one.commands:
                template = next((text for text in templates if _fits(text, command.lines[0])), "")
                found.setdefault(f"{one.cause.code}: {template}", (name, one.cause.code, command.lines[0]))
    return found


def _fits(template: str, line: str) -> bool:
    return all(word in line for word in template.split() if not any(place in word for place in ("NODE", "NAME", "POD", "KIND", "v1.NN")))


@pytest.mark.test_all
@needs_kubectl
@pytest.mark.xdist_group("defects")
def test_commands_that_read_do_and_those_that_change_mend(tmp_path: Path) -> None:
    """Each command once, with stock kubectl against the simulated cluster of a defect of its cause."""
    by_defect: dict[str, list[tuple[str, str]]] = {}
    for name, code, line in _first_of_each().values():
        by_defect.setdefault(name, []).append((code, line))
    wrong = [
        problem
        for name, offered in by_defect.items()
        for problem in _tried(tmp_path, name, sorted(offered, key=lambda one: not is_reading(one[1])))
    ]
    assert wrong == []


def _tried(folder: Path, name: str, offered: list[tuple[str, str]]) -> Iterator[str]:
    """What is wrong with commands: they are refused, or what they were offered for is as before."""
    with served(folder, judged(load_defect(name).scenario, name).objects) as (_, store):
        for code, line in offered:
            program, *words = shlex.split(line.replace("FILE", shlex.quote(str(folder / "kubeconfig"))))
            command = [str(KUBECTL), "--kubeconfig", str(folder / "kubeconfig"), *words]
            if program != "kubectl":
                command = [sys.executable, "-m", "conformance.cli.main", *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
            if done.returncode and not _has_no_such_thing(done.stderr):
                yield f"{name}: {line}: {done.stderr[:300]}"
            elif not is_reading(line):
                held = (item for key in store.held_keys() for item in store.list(key))
                made = results_of(load_defect(name).scenario, name, held)
                left = [one.name for one in _subjects(made, code) if one.name.split(" ")[0] in shlex.split(line)]
                if left:
                    yield f"{name}: {line}: {left} still have {code}"


def _subjects(made: Mapping[str, Result], code: str) -> Iterator[SubjectResult]:
    for result in made.values():
        yield from (subject for subject in result.subjects if subject.cause == code)


def _has_no_such_thing(error: str) -> bool:
    """Whether a log or an object is not there in the objects alone, without the programs that write it."""
    return any(words in error for words in ("NotFound", "not found", "no logs", "the server doesn't have a resource type"))
