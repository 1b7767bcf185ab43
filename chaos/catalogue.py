"""The experiment files: read strictly, listed, selected.

What chaostoolkit would ignore or do differently than it reads is refused. ``chaos validate`` accepts misspelt keys, unresolved ``${}``,
background activities and experiments without rollbacks; each of them makes a run that looks good and is not
(docs/facts/chaostoolkit.md#validation). All mistakes of a file come in one message. An unknown name is an error that lists the known ones.
"""

import difflib
import importlib
import inspect
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from chaos.ledger.bounds import REGISTRY
from chaos.model.conditions import ConditionError, parse_condition, signals_of
from chaos.model.experiment import (
    REQUIRED_SECONDS,
    SELF_HEALING,
    Experiment,
    ExperimentError,
    Extension,
    Level,
    decode_extension,
    unknown_name,
)
from chaos.model.pairs import BETWEEN, pairs_of
from chaos.observe.signals import SIGNALS
from chaos.plan.selectors import SELECTORS
from fixtures.model.platform.installed import NAMES
from fixtures.system.file_search import folder_problem
from fixtures.text import users_files, yaml_text
from fixtures.text.yaml_text import NotYaml, RepeatedKey
from fixtures.verdict.record import TargetKind

MODULES = ("chaos.activities", "chaos.probes")
"""Where activities may come from; nothing else is ever called."""

FIDELITIES = ("simulated", "telemetry", "log", "real")
KINDS = (TargetKind.SIMULATED, TargetKind.LOCAL, TargetKind.LIVE)
"""Kinds of targets that carry experiments."""


class KnownNames(msgspec.Struct, frozen=True, kw_only=True):
    """Names that experiments may use. None: not checked, because the registry is not there."""

    modules: tuple[str, ...] = MODULES
    signals: frozenset[str] | None = None
    components: frozenset[str] | None = None
    undo: frozenset[str] | None = None
    selectors: frozenset[str] | None = None
    areas: frozenset[str] | None = None


def mistakes(document: dict[str, Any], extension: Extension, known: KnownNames) -> Iterator[str]:
    """Everything that is wrong with a decoded block, a line each."""
    yield from _names(extension, known)
    yield from _conditions(extension)
    yield from _durations(extension)
    if not document.get("rollbacks") and (lasting := sorted(set(extension.undo) - SELF_HEALING)):
        yield f"rollbacks: expected at least one: {', '.join(lasting)} does not heal by itself"


def _names(extension: Extension, known: KnownNames) -> Iterator[str]:
    where = "extensions"
    yield from _all_known(f"{where}.needs", extension.needs, known.components)
    yield from _all_known(f"{where}.live_needs", extension.live_needs, known.components)
    yield from _all_known(f"{where}.undo", extension.undo, known.undo)
    yield from _all_known(f"{where}.signals", extension.signals, known.signals)
    yield from _all_known(f"{where}.area", extension.area, known.areas)
    yield from _all_known(f"{where}.fidelity", extension.fidelity.values(), frozenset(FIDELITIES))
    yield from _all_known(f"{where}.collateral", extension.collateral, extension.signals)
    if extension.level not in list(Level):
        yield f"{where}.level: expected 0 to {max(Level)}, got {extension.level}"
    if extension.radius.count < 1:
        yield f"{where}.radius.count: expected at least 1, got {extension.radius.count}"
    if not extension.fidelity:
        yield f"{where}.fidelity: expected a kind of target ({', '.join(KINDS)})"
    for kind in extension.fidelity:
        if kind not in KINDS:
            yield f"{where}.fidelity: {kind} carries no experiments"
    select = extension.target.get("select")
    if not isinstance(select, str):
        yield f"{where}.target.select: expected the name of a selector"
    else:
        yield from _all_known(f"{where}.target.select", [select], known.selectors)
    if not extension.area:
        yield f"{where}.area: expected at least one area of the catalogue"
    if not re.fullmatch(r"[A-Z][0-9]{1,2}[a-z]?(-[A-Z][0-9]{1,2}[a-z]?)?", extension.id):
        yield f"{where}.id: expected a letter and a number, got {extension.id!r}"


def _all_known(where: str, names: Iterable[str], known: Collection[str] | None) -> Iterator[str]:
    if known is not None:
        for name in names:
            if name not in known:
                yield unknown_name(where, name, known)


def _conditions(extension: Extension) -> Iterator[str]:
    documents: dict[str, Any] = {"steady": extension.steady, "detect": extension.detect, "contained": extension.contained}
    for expectation in extension.expect:
        given = [mode for mode in ("always", "never", "eventually") if getattr(expectation, mode) is not None]
        where = f"expect {expectation.name!r}"
        if len(given) != 1:
            yield f"{where}: expected exactly one of always, never, eventually"
            continue
        documents[f"{where}.{given[0]}"] = getattr(expectation, given[0])
        if (given[0] == "eventually") != bool(expectation.within):
            yield f"{where}: 'within' comes with 'eventually', and with it only"
        elif expectation.within and expectation.within not in extension.seconds:
            yield unknown_name(f"{where}.within", expectation.within, extension.seconds)
        if expectation.until not in ("", "undo"):
            yield f"{where}.until: expected undo, got {expectation.until!r}"
        if given[0] == "eventually" and _parts(expectation.eventually) <= _parts(extension.steady):
            yield f"{where}: the steady state says so already, and no sample may show a short loss: also name something that lasts"
    names = [expectation.name for expectation in extension.expect]
    if len(set(names)) != len(names):
        yield "expect: two expectations have the same name"
    for where, document in documents.items():
        if document is None:
            continue
        try:
            condition = parse_condition(document, where)
        except ConditionError as error:
            yield str(error)
        else:
            yield from _all_known(where, signals_of(condition), extension.signals)


def _parts(document: object) -> set[str]:
    """What a condition demands at the same time, each as text."""
    parts = document.get("all") if isinstance(document, dict) else None
    return set().union(*map(_parts, parts)) if isinstance(parts, list) else {json.dumps(document, sort_keys=True)}


def _durations(extension: Extension) -> Iterator[str]:
    for name in REQUIRED_SECONDS:
        if name not in extension.seconds:
            yield f"seconds: {name} is missing"
    for name, tempo in extension.seconds.items():
        for kind in extension.fidelity:
            value = tempo.on(kind)
            if value is None:
                yield f"seconds.{name}: no number for {kind}, which fidelity names"
            elif value < 0 or (name in (*REQUIRED_SECONDS, "sample", "gap", "grace", "lead") and value <= 0):
                yield f"seconds.{name}: {value:g} is no duration"
    sample = extension.seconds.get("sample")
    if sample and any((sample.on(kind) or 0) > 1 for kind in extension.fidelity):
        yield "seconds.sample: at most one second, or recovery times mean nothing"


_TOP = {"version", "title", "description", "tags", "contributions", "configuration", "extensions", "steady-state-hypothesis", "method"} | {
    "rollbacks"
}
_ACTIVITY = {"type", "name", "provider", "tolerance"}
_PROVIDER = {"type", "module", "func", "arguments"}
_UNRESOLVED = re.compile(r"\$\{([^}]*)\}")


def load_experiment(path: Path, known: KnownNames) -> Experiment:
    """Read one experiment. Raises :class:`ExperimentError` with everything that is wrong with it."""
    try:
        document = yaml_text.load(users_files.read(path).decode("utf-8"), unique=True)
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror or error}") from None
    except RepeatedKey as error:
        raise ExperimentError(f"{path}: line {error.line}: {error}") from None
    except (NotYaml, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: not YAML: {' '.join(str(error).split())[:300]}") from None
    return check_document(document, known, str(path))


def check_document(document: object, known: KnownNames, where: str) -> Experiment:
    """Check a decoded document. Raises :class:`ExperimentError` with everything that is wrong with it."""
    if not isinstance(document, dict):
        raise ExperimentError(f"{where}: expected an object, got {type(document).__name__}")
    extension, errors = decode_extension(document)
    errors += [*_document(document, known), *_toolkit(document)]
    if extension is not None:
        errors += mistakes(document, extension, known)
    if errors or extension is None:
        raise ExperimentError("\n".join(f"{where}: {error}" for error in dict.fromkeys(errors)))
    return Experiment(path=where, document=document, extension=extension)


# -- the chaostoolkit document ---------------------------------------------------------------------------


def _document(document: dict[str, Any], known: KnownNames) -> Iterator[str]:
    for key in document:
        if key not in _TOP:
            yield unknown_name("experiment", key, _TOP)
    configuration = document.get("configuration", {})
    if not isinstance(configuration, dict) or not all(isinstance(value, (str, int, float, bool)) for value in configuration.values()):
        yield "configuration: expected literals only (neither environment nor probes)"
        configuration = {}
    for where, text in _texts({key: value for key, value in document.items() if key != "configuration"}, ""):
        for name in _UNRESOLVED.findall(text):
            if name not in configuration:
                yield f"{where}: ${{{name}}} is not in configuration: it would be passed on as it stands"
    names: set[str] = set()
    for where, activity in _activities(document):
        yield from _activity(activity, where, known, names)


def _texts(value: object, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _texts(part, f"{where}.{key}".lstrip("."))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _texts(part, f"{where}[{index}]")


def _activities(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    hypothesis = document.get("steady-state-hypothesis") or {}
    lists = {"method": document.get("method"), "rollbacks": document.get("rollbacks")}
    if isinstance(hypothesis, dict):
        lists["steady-state-hypothesis.probes"] = hypothesis.get("probes")
    for where, found in lists.items():
        for index, activity in enumerate(found if isinstance(found, list) else ()):
            yield f"{where}[{index}]", activity


def _activity(activity: object, where: str, known: KnownNames, names: set[str]) -> Iterator[str]:
    if not isinstance(activity, dict):
        yield f"{where}: expected an activity"
        return
    allowed = _ACTIVITY if where.startswith("steady") else _ACTIVITY - {"tolerance"}
    for key in activity:
        if key not in allowed:
            yield unknown_name(where, key, allowed)
    if isinstance(activity.get("tolerance"), dict):
        yield f"{where}.tolerance: expected a literal: what is judged is said in the extension's conditions"
    name = activity.get("name")
    if isinstance(name, str) and name in names:
        yield f"{where}.name: {name!r} is used twice: a journal could not tell them apart"
    names.add(str(name))
    provider = activity.get("provider")
    if not isinstance(provider, dict):
        yield f"{where}.provider: expected {{type: python, module, func, arguments}}"
        return
    for key in provider:
        if key not in _PROVIDER:
            yield unknown_name(f"{where}.provider", key, _PROVIDER)
    if provider.get("type") != "python":
        yield f"{where}.provider.type: expected python, got {provider.get('type')!r}"
        return
    yield from _function(provider, f"{where}.provider", known)


def _function(provider: dict[str, Any], where: str, known: KnownNames) -> Iterator[str]:
    module, name, arguments = str(provider.get("module")), str(provider.get("func")), provider.get("arguments", {})
    if not any(module == allowed or module.startswith(allowed + ".") for allowed in known.modules):
        yield f"{where}.module: {module!r} is not in {' or '.join(known.modules)}"
        return
    try:
        function = getattr(importlib.import_module(module), name, None)
    except ImportError as error:
        yield f"{where}.module: {error}"
        return
    if not inspect.isfunction(function) or function.__module__ != module or name.startswith("_"):
        yield f"{where}.func: {module} has no function {name!r} of its own"
        return
    if not isinstance(arguments, dict):
        yield f"{where}.arguments: expected an object"
        return
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        yield f"{where}.arguments: {name}: {error}"


def _toolkit(document: dict[str, Any]) -> Iterator[str]:
    """What chaostoolkit itself refuses. Not asked about secrets and controls, which it would read and import."""
    if "secrets" in document or "controls" in document:
        return
    from chaoslib.exceptions import ChaosException  # imported late, as only chaos needs it
    from chaoslib.experiment import ensure_experiment_is_valid

    logger = logging.getLogger("chaostoolkit")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        ensure_experiment_is_valid(document)
    except ChaosException as error:
        yield f"chaostoolkit: {' '.join(str(error).split())}"
    except Exception as error:  # its own checks trip over documents of the wrong shape
        yield f"chaostoolkit: {type(error).__name__}: {error}"
    finally:
        logger.setLevel(level)


FOLDER = Path(__file__).resolve().parent / "experiments"
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


def load_all(folder: Path = FOLDER) -> list[Experiment]:
    """Every experiment of a folder by id. Raises :class:`SelectionError` with all mistakes of all files."""
    names, found = known_names(), dict[str, Experiment]()
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
    try:
        for pair in pairs_of(found.values()) if not problems else ():
            check_document(pair.document, names, f"{pair.path} ({pair.id})")
    except ExperimentError as error:
        problems.append(str(error))
    if problems:
        raise SelectionError("\n".join(problems))
    return sorted(found.values(), key=id_order)


def id_order(experiment: Experiment) -> tuple[str, int, str]:
    """Letter, then number: A9 before A13."""
    digits = "".join(char for char in experiment.id[1:] if char.isdecimal())
    return experiment.id[0], int(digits or 0), experiment.id


def select_experiments(experiments: Sequence[Experiment], ids: Sequence[str], max_level: Level) -> list[Experiment]:
    """The experiments of these ids, where ``A2+N1`` is both at once; without ids all up to the level. Raises :class:`SelectionError`."""
    if not experiments:
        raise SelectionError("there are no experiments")
    by_id = {experiment.id: experiment for experiment in (*experiments, *(pairs_of(experiments) if ids else ()))}
    ids = [_id_of_pair(id_, experiments) if "+" in id_ else id_ for id_ in ids]
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
        return [experiment for experiment in by_id.values() if experiment.id in ids]
    chosen = [experiment for experiment in experiments if experiment.extension.level <= max_level]
    if not chosen:
        raise SelectionError(f"no experiment is of level {max_level.value} or below")
    return chosen


def _id_of_pair(text: str, experiments: Iterable[Experiment]) -> str:
    """The id of the pair that ``A2+N1`` or ``N1+A2`` names. Raises :class:`SelectionError` for one that no experiment allows."""
    allowed = {(one.id, other): f"{one.id}{BETWEEN}{other}" for one in experiments for other in one.extension.combines}
    named = tuple(part.strip() for part in text.split("+"))
    found = allowed.get((named[0], named[1]), allowed.get((named[1], named[0]))) if len(named) == 2 else None
    if found is None:
        known = ", ".join("+".join(pair) for pair in allowed) or "none"
        raise SelectionError(f"--chaos-experiment {text}: no experiment says that these may be combined; pairs are {known}")
    return found
