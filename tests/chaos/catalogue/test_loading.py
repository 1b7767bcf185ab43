"""What chaostoolkit lets pass and is refused here, each alone; and how the files of experiments are written."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.catalogue import FOLDER, KnownNames, SelectionError, check_document, known_names, load_experiment, select_experiments
from chaos.ledger.bounds import REGISTRY
from chaos.model.conditions import parse_condition, signals_of
from chaos.model.experiment import SELF_HEALING, ExperimentError
from fixtures.verdict.record import TargetKind
from tests.chaos.catalogue.documents import MODULES, document, put_at
from tests.chaos.shipped import EXPERIMENTS
from tests.chaos.tables import table

KNOWN = KnownNames(
    modules=MODULES,
    signals=frozenset({"node.labels", "node.ready", "nodes.others"}),
    components=frozenset({"device-plugin"}),
    undo=frozenset({"node.labels", "pods.replaced"}),
    selectors=frozenset({"node"}),
    areas=frozenset({"inv", "adv"}),
)


def test_a_good_experiment_is_loaded_with_its_durations() -> None:
    found = check_document(document(), KNOWN, "X1.yaml")
    assert found.id == "X1"
    from fixtures.verdict.record import TargetKind

    assert found.extension.durations(TargetKind.LOCAL)["recovery"] == 20
    assert found.extension.durations(TargetKind.LIVE)["recovery"] == 60


MISTAKES = table("catalogue/mistakes")


@pytest.mark.parametrize(("put", "says"), [(row["put"], row["says"]) for row in MISTAKES], ids=str)
def test_what_would_not_act_as_it_reads_is_refused(put: dict[str, Any], says: str) -> None:
    found = document()
    for path, value in put.items():
        put_at(found, path, value)
    with pytest.raises(ExperimentError) as refused:
        check_document(found, KNOWN, "X1.yaml")
    assert says in str(refused.value)
    assert all(line.startswith("X1.yaml: ") for line in str(refused.value).splitlines())


def test_all_mistakes_are_reported_at_once() -> None:
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
    from chaos.model.experiment import Level

    assert [one.id for one in select_experiments(experiments, (), Level(1))] == ["A1"]
    assert [one.id for one in select_experiments(experiments, ("N1",), Level(3))] == ["N1"]
    with pytest.raises(SelectionError, match="did you mean A1"):
        select_experiments(experiments, ("a1",), Level(1))
    with pytest.raises(SelectionError, match="expected --chaos-max-level 3"):
        select_experiments(experiments, ("N1",), Level(1))
    with pytest.raises(SelectionError, match="level 0 or below"):
        select_experiments(experiments, (), Level(0))


ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_loads_strictly_and_is_named_after_its_id(path: Path) -> None:
    experiment = load_experiment(path, known_names())
    assert path.stem.partition("-")[0] == experiment.id
    assert not re.match(r"(Ensure|Verify|Check|Test)\b", experiment.title)
    assert len(experiment.title) <= 110
    assert not experiment.title.endswith(".")


VALIDATE = """
import sys
from chaostoolkit.cli import cli
for path in sys.argv[1:]:
    try:
        cli(["--no-version-check", "--log-file", "/dev/null", "validate", path], standalone_mode=True)
    except SystemExit as error:
        print("VALIDATED", path, error.code)
"""


@pytest.mark.test_all
def test_chaostoolkit_accepts_every_file() -> None:
    """`chaos validate`, by its own entry point: one process for all files, because importing it takes longer than validating."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-c", VALIDATE, *map(str, FILES)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    codes = dict(line.split()[1:] for line in done.stdout.splitlines() if line.startswith("VALIDATED"))
    assert codes == {str(path): "0" for path in FILES}, done.stdout[-2000:] + done.stderr[-2000:]


def test_the_only_rollback_is_the_generic_one() -> None:
    for experiment in EXPERIMENTS.values():
        found = [activity["provider"]["func"] for activity in experiment.document.get("rollbacks") or ()]
        assert found == (["undo_everything"] if experiment.extension.undo else []), experiment.id


def test_every_undo_is_registered_and_every_fault_has_one() -> None:
    for experiment in EXPERIMENTS.values():
        assert set(experiment.extension.undo) <= set(REGISTRY), experiment.id
    assert [one.id for one in EXPERIMENTS.values() if not one.extension.undo] == ["R4"]


def test_what_a_machine_suffers_is_no_agents_level() -> None:
    """On a live cluster, a fault of a host or of a Node object (but for cordon and labels) is level 3 at least."""
    for experiment in EXPERIMENTS.values():
        of_machine = {name for name in experiment.extension.undo if name.startswith("host.") or name == "node.exists"}
        if TargetKind.LIVE in experiment.extension.fidelity and of_machine:
            assert experiment.extension.level >= 3, experiment.id


def test_no_live_fidelity_is_claimed_for_what_exists_on_simulated_nodes_only() -> None:
    for experiment in EXPERIMENTS.values():
        activities = {activity["provider"]["func"] for activity in experiment.document["method"]}
        if activities & {"fail_gpu", "raise_xids", "fail_event_wait"}:
            assert TargetKind.LIVE not in experiment.extension.fidelity, experiment.id
        if "inject_dcgm" in activities:
            assert experiment.extension.fidelity[TargetKind.LIVE] == "telemetry", experiment.id
        if "write_kernel_lines" in activities:
            assert experiment.extension.fidelity.get(TargetKind.LIVE, "log") == "log", experiment.id


def test_every_signal_that_is_read_is_judged() -> None:
    """What no condition reads is there to be drawn; more than a few of those only cost requests."""
    for experiment in EXPERIMENTS.values():
        extension = experiment.extension
        documents = [extension.steady, extension.detect, extension.contained]
        documents += [getattr(one, one.mode) for one in extension.expect]
        judged = {name for document in documents if document is not None for name in signals_of(parse_condition(document))} | set(
            extension.collateral
        )
        assert len(set(extension.signals) - judged) <= 5, (experiment.id, set(extension.signals) - judged)


def test_what_heals_by_itself_counts_from_the_fault() -> None:
    healing = {one.id for one in EXPERIMENTS.values() if one.extension.undo and set(one.extension.undo) <= SELF_HEALING}
    assert {"A1", "A6", "A7", "A8", "A14", "A16", "A17", "S1", "S2", "S4"} <= healing
