"""What chaostoolkit lets pass and is refused here, each alone; and all mistakes of a file in one message."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.catalogue.extension_rules import KnownNames
from chaos.catalogue.loading import check_document, load_experiment
from chaos.catalogue.selection import SelectionError, select_experiments
from chaos.model.extension_decoding import ExperimentError
from tests.chaos.catalogue.documents import MODULE, MODULES, activity, document

KNOWN = KnownNames(
    modules=MODULES,
    signals=frozenset({"node.labels", "node.ready", "nodes.others"}),
    components=frozenset({"device-plugin"}),
    undo=frozenset({"node.labels", "pods.replaced"}),
    selectors=frozenset({"node"}),
    areas=frozenset({"inv", "adv"}),
)


def block(found: dict[str, Any]) -> dict[str, Any]:
    extension: dict[str, Any] = found["extensions"][0]
    return extension


def test_a_good_experiment_is_loaded_with_its_durations() -> None:
    found = check_document(document(), KNOWN, "X1.yaml")
    assert found.id == "X1"
    from fixtures.verdict.record import TargetKind

    assert found.extension.durations(TargetKind.LOCAL)["recovery"] == 20
    assert found.extension.durations(TargetKind.LIVE)["recovery"] == 60


def _method(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda found: found["method"][0].update(change)


def _provider(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda found: found["method"][0]["provider"].update(change)


def _block(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda found: block(found).update(change)


def _seconds(**change: Any) -> Callable[[dict[str, Any]], None]:
    return lambda found: block(found)["seconds"].update(change)


JSONPATH = activity("nothing", "probe") | {"tolerance": {"type": "jsonpath", "path": "a"}}

MISTAKES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (lambda found: found.update(metod=[]), "unknown 'metod'; did you mean 'method'?"),
    (lambda found: found.update(controls=[{"name": "x"}]), "unknown 'controls'"),
    (lambda found: found.update(secrets={"a": {"type": "env", "key": "HOME"}}), "unknown 'secrets'"),
    (lambda found: found.update(dry="actions"), "unknown 'dry'"),
    (lambda found: found.update(runtime={}), "unknown 'runtime'"),
    (lambda found: found.update(configuration={"a": {"type": "env", "key": "HOME"}}), "literals only"),
    (lambda found: found.update(title="x ${nowhere}"), "${nowhere} is not in configuration"),
    (lambda found: found.pop("description"), "chaostoolkit"),
    (_method(background=True), "unknown 'background'"),
    (_method(dry="actions"), "unknown 'dry'"),
    (_method(pauses={"after": 5}), "unknown 'pauses'"),
    (_method(tmeout=5), "unknown 'tmeout'"),
    (_method(timeout=5), "unknown 'timeout'"),
    (_method(name="undo"), "used twice"),
    (_provider(type="process"), "expected python"),
    (_provider(type="http"), "expected python"),
    (_provider(module="os"), "'os' is not in"),
    (_provider(module="chaos.activities_of_others"), "is not in"),
    (_provider(module=MODULE + ".nowhere"), "nowhere"),
    (_provider(func="lable"), "no function 'lable'"),
    (_provider(func="merge"), "of its own"),
    (_provider(func="_alarm"), "no function"),
    (_provider(arguments={"keys": ["a"], "nodes": 1}), "unexpected keyword argument"),
    (_provider(func="hold", arguments={}), "missing a required argument"),
    (_provider(arguments={"x": "${nowhere}"}), "${nowhere}"),
    (_provider(secrets=["a"]), "unknown 'secrets'"),
    (lambda found: found.update({"steady-state-hypothesis": {"title": "t", "probes": [JSONPATH]}}), "tolerance: expected a literal"),
    (lambda found: found.update(rollbacks=[]), "does not heal by itself"),
    (lambda found: found.update(extensions=[]), "exactly one block"),
    (_block(expct=[]), "unknown 'expct'; did you mean 'expect'?"),
    (_block(level=5), "expected 0 to 4"),
    (_block(id="x"), "expected a letter and a number"),
    (_block(area=["nowhere"]), "unknown 'nowhere'"),
    (_block(area=[]), "at least one area"),
    (_block(needs=["device-plugn"]), "did you mean 'device-plugin'?"),
    (_block(undo=["node.label"]), "did you mean 'node.labels'?"),
    (_block(signals=["node.label", "node.ready", "nodes.others"]), "did you mean 'node.labels'?"),
    (_block(collateral=["pods.others"]), "unknown 'pods.others'"),
    (_block(target={"select": "nod"}), "did you mean 'node'?"),
    (_block(target={}), "name of a selector"),
    (_block(fidelity={}), "kind of target"),
    (_block(fidelity={"simulated": "made up"}), "unknown 'made up'"),
    (_block(fidelity={"snapshot": "real"}), "snapshot carries no experiments"),
    (_block(radius={"scope": "node", "count": 0}), "at least 1"),
    (_block(radius={"scope": "node", "counts": 1}), "counts"),
    (_block(steady={"all": []}), "at least one condition"),
    (_block(detect={"signal": "elsewhere", "is": True}), "unknown 'elsewhere'"),
    (_block(expect=[{"name": "a"}]), "exactly one of always"),
    (_block(expect=[{"name": "a", "eventually": {"signal": "node.ready", "is": True}}]), "'within'"),
    (
        _block(expect=[{"name": "a", "eventually": {"signal": "node.ready", "is": True}, "within": "recvery"}]),
        "did you mean 'recovery'?",
    ),
    (
        _block(
            steady={"all": [{"signal": "node.ready", "is": True}, {"signal": "nodes.others", "equals": []}]},
            expect=[{"name": "a", "eventually": {"signal": "node.ready", "is": True}, "within": "recovery"}],
        ),
        "no sample may show a short loss",
    ),
    (_block(expect=[{"name": "a", "always": {"signal": "node.ready", "is": True}}] * 2), "same name"),
    (_block(expect=[{"name": "a", "always": {"signal": "node.ready", "is": True}, "until": "noon"}]), "expected undo"),
    (lambda found: block(found)["seconds"].pop("settle"), "settle is missing"),
    (_seconds(settle={"live": 1}), "no number for simulated"),
    (_seconds(recovery={"live": 0, "simulated": 1}), "0 is no duration"),
    (_seconds(sample={"live": 2, "simulated": 1}), "at most one second"),
    (_seconds(settle={"live": 1, "simulatd": 1}), "simulatd"),
]


@pytest.mark.parametrize(("spoil", "says"), MISTAKES, ids=map(str, range(len(MISTAKES))))
def test_what_would_not_act_as_it_reads_is_refused(spoil: Callable[[dict[str, Any]], None], says: str) -> None:
    found = document()
    spoil(found)
    with pytest.raises(ExperimentError) as refused:
        check_document(found, KNOWN, "X1.yaml")
    assert says in str(refused.value)
    assert all(line.startswith("X1.yaml: ") for line in str(refused.value).splitlines())


def test_all_mistakes_are_told_at_once() -> None:
    found = document(level=9, area=["nowhere"])
    found["metod"] = []
    found["method"][0]["background"] = True
    with pytest.raises(ExperimentError) as refused:
        check_document(found, KNOWN, "X1.yaml")
    assert all(text in str(refused.value) for text in ("'metod'", "'background'", "0 to 4", "'nowhere'"))


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\x00", "- 1"])
def test_a_file_that_is_no_experiment_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ExperimentError, match=r"x\.yaml"):
        load_experiment(tmp_path / "x.yaml", KNOWN)


def test_selection_says_what_there_is() -> None:
    experiments = [check_document(document(id="A1", level=1), KNOWN, "a"), check_document(document(id="N1", level=3), KNOWN, "n")]
    from chaos.model.levels import Level

    assert [one.id for one in select_experiments(experiments, (), Level(1))] == ["A1"]
    assert [one.id for one in select_experiments(experiments, ("N1",), Level(3))] == ["N1"]
    with pytest.raises(SelectionError, match="did you mean A1"):
        select_experiments(experiments, ("a1",), Level(1))
    with pytest.raises(SelectionError, match="expected --chaos-max-level 3"):
        select_experiments(experiments, ("N1",), Level(1))
    with pytest.raises(SelectionError, match="level 0 or below"):
        select_experiments(experiments, (), Level(0))
