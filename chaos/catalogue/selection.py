"""Which experiments exist and which of them a run selects. An unknown name is an error that lists the known ones."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from chaos.catalogue.extension_rules import KnownNames
from chaos.catalogue.loading import load_experiment
from chaos.ledger.registry import REGISTRY
from chaos.model.experiment import Experiment
from chaos.model.extension_decoding import ExperimentError
from chaos.model.levels import Level
from chaos.observe.components import NAMES
from chaos.observe.signals.registry import SIGNALS
from chaos.plan.selectors import SELECTORS
from fixtures.system.file_search import folder_problem

FOLDER = Path(__file__).resolve().parents[1] / "experiments"
CATALOGUES = FOLDER.parents[1] / "conformance"
"""Each of its folders that has a catalogue is an area, which an experiment may name."""


class SelectionError(Exception):
    """A name or level that selects nothing, or experiments that cannot be loaded. Nothing was touched."""


def known_names() -> KnownNames:
    """Every name that experiment files may use."""
    return KnownNames(
        signals=frozenset(SIGNALS),
        components=frozenset(NAMES),
        undo=frozenset(REGISTRY),
        selectors=frozenset(SELECTORS),
        areas=frozenset(path.parent.name for path in CATALOGUES.glob("*/catalogue.yaml")),
    )


def load_all(folder: Path = FOLDER, names: KnownNames | None = None) -> list[Experiment]:
    """Every experiment of a folder by id. Raises :class:`SelectionError` with all mistakes of all files."""
    names = names or known_names()
    found: dict[str, Experiment] = {}
    problems = []
    if why := folder_problem(folder):
        raise SelectionError(f"--chaos-folder {folder}: {why}")
    for path in sorted(folder.glob("*.yaml")):
        try:
            experiment = load_experiment(path, names)
        except ExperimentError as error:
            problems.append(str(error))
            continue
        if experiment.id in found:
            problems.append(f"{path}: {experiment.id} is defined twice, in {Path(found[experiment.id].path).name} too")
        found[experiment.id] = experiment
    if problems:
        raise SelectionError("\n".join(problems))
    return sorted(found.values(), key=id_order)


def id_order(experiment: Experiment) -> tuple[str, int, str]:
    """Letter, then number: A9 before A13."""
    digits = "".join(char for char in experiment.id[1:] if char.isdecimal())
    return experiment.id[0], int(digits or 0), experiment.id


def select_experiments(experiments: Sequence[Experiment], ids: Sequence[str], max_level: Level) -> list[Experiment]:
    """The experiments of these ids, or all up to the level. Raises :class:`SelectionError`."""
    if not experiments:
        raise SelectionError("there are no experiments")
    by_id = {experiment.id: experiment for experiment in experiments}
    for id_ in ids:
        if id_ not in by_id:
            near = difflib.get_close_matches(id_, by_id, n=1) or [key for key in by_id if key.lower() == id_.lower()]
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(by_id)}"
            raise SelectionError(f"--chaos-experiment {id_}: no such experiment; {hint}")
        level = Level(by_id[id_].extension.level)
        if level > max_level:
            raise SelectionError(
                f"--chaos-experiment {id_}: it is of level {level.value} ({level.words}), the ceiling is {max_level.value}; "
                f"expected --chaos-max-level {level.value}"
            )
    if ids:
        return [experiment for experiment in experiments if experiment.id in ids]
    chosen = [experiment for experiment in experiments if experiment.extension.level <= max_level]
    if not chosen:
        raise SelectionError(f"no experiment is of level {max_level.value} or below")
    return chosen
