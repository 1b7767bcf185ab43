"""Control runs: an experiment with everything but its fault. Whatever turns red then was never about the fault."""

import copy
import itertools
from pathlib import Path

import msgspec
import yaml

from chaos.model.experiment import EXTENSION, Experiment
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import Verdict
from tests.chaos.selfcheck.runs import run

_PREPARING = ("chaos.activities.canaries", "chaos.activities.waiting")
_HOLD = {
    "type": "action",
    "name": "control: the fault is left out",
    "provider": {"type": "python", "module": "chaos.activities.waiting", "func": "hold", "arguments": {"duration": "settle"}},
}
_ABOUT_THE_FAULT = ("detect", "contained", "expected_failure")


class ControlRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One control run."""

    experiment: str
    turn: int
    verdict: str
    false_failure: bool
    message: str = ""


def control_of(experiment: Experiment) -> Json:
    """The experiment's document without its fault: the same targets, gates, canaries, signals, steady state and standing expectations.

    What follows the fault goes with it, and so does ``eventually``, which waits for what the fault brings about.
    """
    document = copy.deepcopy(experiment.document)
    document["title"] = f"Control run of {experiment.id}: without the fault nothing is to be seen"
    prepared = itertools.takewhile(lambda step: step["provider"]["module"] in _PREPARING, document["method"])
    document["method"] = [*prepared, copy.deepcopy(_HOLD)]
    block = next(item for item in document["extensions"] if item.get("name") == EXTENSION)
    block["undo"] = []
    for key in _ABOUT_THE_FAULT:
        block.pop(key, None)
    block["expect"] = [one for one in block.get("expect") or [] if "eventually" not in one]
    return document


def write(experiments: list[Experiment], folder: Path) -> Path:
    """A folder of control documents."""
    folder.mkdir(parents=True, exist_ok=True)
    for experiment in experiments:
        text = yaml.safe_dump(control_of(experiment), sort_keys=False, allow_unicode=True)
        (folder / Path(experiment.path).name).write_text(text, encoding="utf-8")
    return folder


def check(ids: list[str], scenario: str, folder: Path, documents: Path, turn: int) -> list[ControlRow]:
    """Run control documents, one after the other on one cluster."""
    finished = run(folder, "--simulate", scenario, "--chaos-folder", str(documents), ids=ids)
    rows = []
    for id_ in ids:
        result = finished.result(id_)
        good = result is not None and result.verdict is Verdict.PASSED
        rows.append(
            ControlRow(
                experiment=id_,
                turn=turn,
                verdict=result.verdict.value if result else f"exit code {finished.code}",
                false_failure=not good,
                message="" if good else result.message if result else finished.tail,
            )
        )
    return rows
