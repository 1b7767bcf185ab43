"""Which experiments there are and which of them a run is about. A name that is not known is an error that says what is."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from chaos.components import NAMES
from chaos.engine.block import Known
from chaos.engine.conforming import AREAS
from chaos.engine.loading import ExperimentError, load
from chaos.experiment import Experiment
from chaos.ledger.undo import REGISTRY
from chaos.levels import Level
from chaos.sampling.signals.registry import SIGNALS
from chaos.selectors import SELECTORS

FOLDER = Path(__file__).with_name("experiments")


class SelectionError(Exception):
    """A name or level that selects nothing, or experiments that cannot be loaded. Nothing was touched."""


def known() -> Known:
    """Every name that experiment files may use."""
    return Known(
        signals=frozenset(SIGNALS),
        components=frozenset(NAMES),
        undo=frozenset(REGISTRY),
        selectors=frozenset(SELECTORS),
        areas=frozenset(AREAS),
    )


def load_all(folder: Path = FOLDER, names: Known | None = None) -> list[Experiment]:
    """Every experiment of a folder by id. Raises :class:`SelectionError` with all mistakes of all files."""
    names = names or known()
    found: dict[str, Experiment] = {}
    problems = []
    if not folder.is_dir():
        raise SelectionError(f"--chaos-folder {folder}: no such folder")
    for path in sorted(folder.glob("*.yaml")):
        try:
            experiment = load(path, names)
        except ExperimentError as error:
            problems.append(str(error))
            continue
        if experiment.id in found:
            problems.append(f"{path}: {experiment.id} is defined twice, in {Path(found[experiment.id].path).name} too")
        found[experiment.id] = experiment
    if problems:
        raise SelectionError("\n".join(problems))
    return sorted(found.values(), key=order)


def order(experiment: Experiment) -> tuple[str, int, str]:
    """Letter, then number: A9 before A13."""
    digits = "".join(char for char in experiment.id[1:] if char.isdecimal())
    return experiment.id[0], int(digits or 0), experiment.id


def select(experiments: Sequence[Experiment], ids: Sequence[str], max_level: Level) -> list[Experiment]:
    """The experiments of these ids, or all up to the level. Raises :class:`SelectionError`."""
    if not experiments:
        raise SelectionError("there are no experiments")
    by_id = {experiment.id: experiment for experiment in experiments}
    for id_ in ids:
        if id_ not in by_id:
            near = difflib.get_close_matches(id_, by_id, n=1) or [key for key in by_id if key.lower() == id_.lower()]
            told = f"did you mean {near[0]}?" if near else f"known: {', '.join(by_id)}"
            raise SelectionError(f"--chaos-experiment {id_}: no such experiment; {told}")
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


def split(texts: Sequence[str]) -> tuple[str, ...]:
    """Ids of a repeatable option whose values may hold several, with commas."""
    return tuple(dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip()))
