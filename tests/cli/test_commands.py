"""Every command helps: what it is for, what each argument means, and examples that its own parser takes."""

import argparse
import shlex
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from conformance.catalogue import load_catalogue
from conformance.cli.arguments import Parser, narrow
from conformance.cli.commands import COMMANDS, command_parser
from conformance.cli.diagnosis import Diagnosis, diagnose
from conformance.cli.doctor import render
from conformance.cli.main import main
from conformance.requirement import needs_of
from fixtures.cluster.access import Review, Right
from fixtures.text.sentences import in_order
from fixtures.verdict.coverage import Asked, measure
from fixtures.verdict.record import Access, Target, TargetKind, Verdict
from reports.terminal import actions
from tests.builders import a_node, a_pod, a_scope
from tests.endtoend.runner import carried_out
from tests.reports.sample_report import report, result


def parsers() -> Iterator[tuple[str, Parser]]:
    """Each command, and each command below it, by its words."""
    for name in COMMANDS:
        parser = command_parser(name)
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        yield name, parser
        for action in below:
            yield from ((f"{name} {word}", one) for word, one in action.choices.items() if isinstance(one, Parser))


PARSERS = dict(parsers())


def words_of(example: str) -> list[str]:
    """The words after ``gpu-conformance`` of an example, which may be in a shell's ``$(…)``."""
    words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
    assert words[0] == "gpu-conformance"
    return words[1:]


@pytest.mark.parametrize("name", PARSERS)
def test_a_command_has_two_examples_that_its_parser_takes(name: str) -> None:
    examples = PARSERS[name].examples
    assert len(set(examples)) >= 2
    for example in examples:
        words = words_of(example)
        assert " ".join(words).startswith(name)
        assert example in PARSERS[name].format_help()
        assert command_parser(words[0]).parse_args(words[1:])


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_of_a_command_says_what_it_does(name: str) -> None:
    silent = [action.option_strings or action.dest for action in PARSERS[name]._actions if not action.help and action.nargs != "A..."]
    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_0_and_shows_the_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([name, "--help"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: gpu-conformance {name}")
    assert all(example in shown for example in COMMANDS[name].examples)


def test_the_list_of_commands_names_each_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [name for name, command in COMMANDS.items() if f"{name} " not in shown or command.about not in shown] == []


def test_an_area_is_explained_by_its_requirements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "gang"]) == 0
    assert {"GANG-01", "GANG-11"} <= set(capsys.readouterr().out.split())
    assert main(["explain", "GANGS"]) == 4
    assert "did you mean GANG?" in capsys.readouterr().err


def test_names_are_sorted_as_people_do() -> None:
    names = ["l40s-2", "l40s-19", "l40s-189", "l40s-190", "node", "node-07a", "node-7b", "node-10"]
    assert in_order(reversed(names)) == names


def test_long_lines_go_on_below() -> None:
    text = "short\n  " + "word " * 80
    lines = narrow(text).split("\n")
    assert max(map(len, lines)) <= 120
    assert (lines[0], lines[2][:6]) == ("short", " " * 6)
    assert max(map(len, narrow(text, 80).split("\n"))) <= 80


# -- The doctor's diagnosis of a trial: devices that probes can use, what is in the way, and the words for it


CATALOGUE = load_catalogue()
HOSTILE = "\x1b[2J\u202egpu ::error::x\r\n##[add-mask]y"


def diagnosis(*, reviews: tuple[Review, ...] = (), holding: tuple[str, ...] = (), **objects: Any) -> Diagnosis:
    """A diagnosis of these objects, of a trial that judged FENCE-01 and had no access to probe."""
    scope = a_scope(**objects)
    results = [
        result("FENCE-01", Verdict.PASSED, judged=1, total=1)
        if id_ == "FENCE-01"
        else result(id_, Verdict.NOT_APPLICABLE, reason_code=code, message="nothing of the kind", level=one.level, access=one.access)
        for id_, one in CATALOGUE.by_id.items()
        for code in ("AboveAccess" if one.access is not Access.READ else "Nothing",)
    ]
    asked = [Asked(id=one.id, title=one.title, area=one.area, level=one.level) for one in CATALOGUE.by_id.values()]
    target = Target(kind=TargetKind.LIVE, server="https://prod", context=HOSTILE, kubernetes_version="v1.37.0")
    made = msgspec.structs.replace(report(results), target=target, scope=measure(asked, results, {}))
    state = SimpleNamespace(
        scope=scope,
        snapshot=scope.snapshot,
        catalogue=CATALOGUE,
        needs=needs_of(CATALOGUE.by_id.values(), Access.READ),
        opened=SimpleNamespace(target=target),
    )
    return diagnose(state, made, ceiling=Access.WORKLOAD, reviews=reviews, with_devices=holding)  # type: ignore[arg-type]


def test_devices_of_nodes_that_no_probe_reaches_are_not_free() -> None:
    nodes = [a_node("gpu-0"), a_node("gpu-1", cordoned=True), a_node("gpu-2", taints=["someone/else=x:NoSchedule"])]
    found = diagnosis(nodes=nodes, pods=[a_pod(devices=3, node="gpu-0")])
    (pool,) = found.pools
    assert (pool.nodes, pool.usable_nodes, pool.devices, pool.free) == (3, 1, 24, 5)
    left_out = {one.name: one.because for one in found.nodes_left_out}
    assert left_out["gpu-1"] == "cordoned"
    assert "someone/else" in left_out["gpu-2"]


def test_a_probe_that_holds_devices_is_not_foretold_where_none_is_free() -> None:
    busy: dict[str, Any] = {"nodes": [a_node("gpu-0")], "pods": [a_pod(devices=8, node="gpu-0")]}
    reasons = {one.name: one.because for one in diagnosis(holding=("FENCE-06",), **busy).outlook.not_judged}
    assert reasons["FENCE-06"] == "no device is free on a node that a probe can use"
    assert "FENCE-06" in diagnosis(holding=("FENCE-06",), nodes=[a_node("gpu-0")]).outlook.probed


def test_a_right_that_is_missing_is_in_the_way_and_one_without_an_answer_too() -> None:
    rights = [Right(verb="create", group="", resource="pods", needed_by=("FENCE-06",)), Right(verb="list", group="", resource="nodes")]
    reviews = (Review(right=rights[0], allowed=False, reason=HOSTILE), Review(right=rights[1], allowed=None, reason="503"))
    found = diagnosis(reviews=reviews, nodes=[a_node("gpu-0")])
    assert (found.ready, found.exit_code) == (False, 10)
    assert found.obstacles[0] == "2 of 2 rights are missing"
    assert [one.unknown for one in found.rights.missing] == [False, True]
    text = render(found, width=100)
    assert "may not create pods (" in text
    assert "no answer about list nodes (503)" in text


def test_the_text_is_plain_whatever_a_cluster_says_and_as_wide_as_it_may_be() -> None:
    rights = Review(right=Right(verb="list", group="", resource=HOSTILE), allowed=False, reason=HOSTILE)
    found = diagnosis(reviews=(rights,), nodes=[a_node("gpu-0", product=HOSTILE), a_node(HOSTILE, cordoned=True)])
    for width in (60, 100):
        text = render(found, width=width)
        assert set(text) <= {"\n", *map(chr, range(0x20, 0x7F))}
        table = next(number for number, line in enumerate(text.splitlines()) if "usable nodes" in line)
        others = [line for number, line in enumerate(text.splitlines()) if number not in range(table, table + 4)]
        assert max(map(len, others)) <= width
        assert list(carried_out(actions.harmless(text))) == []
    assert text.splitlines()[-1].startswith("NOT READY")
