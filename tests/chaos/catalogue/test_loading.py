"""What chaostoolkit lets pass and is refused here, each alone; and all mistakes of a file in one message."""

from pathlib import Path
from typing import Any

import pytest

from chaos.catalogue.extension_rules import KnownNames
from chaos.catalogue.loading import check_document, load_experiment
from chaos.catalogue.selection import SelectionError, select_experiments
from chaos.model.extension_decoding import ExperimentError
from tests.chaos.catalogue.documents import MODULES, document, put_at
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
