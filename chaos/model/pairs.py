"""Two experiments as one: both faults at once, in one plan, with one ledger and the expectations of both.

The first experiment's ``combines`` names the second, and the expectations of either that cannot hold beside the other fault. What the
second waits for begins when the first has done its part, so its bounds are longer by what the first waits at most.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from chaos.model.experiment import Experiment, ExperimentError, SecondsByTarget, extension_of
from fixtures.kubernetes.models import Json
from fixtures.verdict.record import TargetKind

BETWEEN = "-"
"""Between two ids: part of names of objects and of units, where the ``+`` that people write may not be."""

BASELINE = "watch_before"
_POD = ("daemon-pod", "controller-pod")
_FIDELITIES = ("simulated", "telemetry", "log", "real")
_KINDS = (TargetKind.LIVE, TargetKind.SIMULATED, TargetKind.LOCAL)

_LISTS = ("area", "signals", "collateral", "needs", "live_needs", "undo", "expects")
_EITHER = ("detect", "contained", "expected_failure", "takes_capacity", "cordons")


def pairs_of(experiments: Iterable[Experiment], *, among: bool = False) -> list[Experiment]:
    """Every pair that the experiments allow; ``among``: only those of which both are here.

    Raises :class:`ExperimentError` for one that cannot be carried out.
    """
    by_id = {experiment.id: experiment for experiment in experiments}
    return [_pair(first, by_id, id_) for first in by_id.values() for id_ in first.extension.combines if id_ in by_id or not among]


def _pair(first: Experiment, by_id: Mapping[str, Experiment], id_: str) -> Experiment:
    second = by_id.get(id_)
    if second is None:
        raise ExperimentError(f"{first.path}: extensions.combines: there is no experiment {id_!r}")
    names = [one.name for each in (first, second) for one in each.extension.expect]
    if unknown := [name for name in first.extension.combines[id_] if name not in names]:
        raise ExperimentError(f"{first.path}: extensions.combines.{id_}: neither experiment expects {unknown[0]!r}")
    return at_once(first, second, first.extension.combines[id_])


def at_once(first: Experiment, second: Experiment, without: Iterable[str] = ()) -> Experiment:
    """Both as one experiment, ``without`` some expectations. Raises :class:`ExperimentError` where they do not fit together."""
    one, other = first.extension, second.extension
    id_ = f"{one.id}{BETWEEN}{other.id}"
    windows = {each.within: other.seconds[each.within] for each in other.expect if each.within}
    later = {f"{name} after {one.id}": _after(first, seconds) for name, seconds in windows.items()}
    kinds = [kind for kind in one.fidelity if kind in other.fidelity]
    scope = "node" if "node" in (one.radius.scope, other.radius.scope) else one.radius.scope
    block = {
        **first.document["extensions"][0],
        "id": id_,
        "level": max(one.level, other.level),
        "fidelity": {kind: min(one.fidelity[kind], other.fidelity[kind], key=_FIDELITIES.index) for kind in kinds},
        "radius": {"scope": scope, "count": one.radius.count + other.radius.count},
        "target": _target(id_, one.target, other.target),
        "seconds": msgspec.to_builtins({**_longest(one.seconds, other.seconds), **later}),
        "steady": {"all": [one.steady, other.steady]},
        "expect": _expectations(first, second, frozenset(without)),
        "combines": {},
        "proves": f"{one.proves} {other.proves}",
        **{name: _both(getattr(one, name), getattr(other, name)) for name in _LISTS},
        **{name: getattr(one, name) or getattr(other, name) for name in _EITHER},
    }
    document = {
        **first.document,
        "title": f"Both at once: {first.title} ({one.id}); {second.title} ({other.id})",
        "description": f"{first.document.get('description', '')} {second.document.get('description', '')}".strip(),
        "tags": _both(first.document.get("tags", ()), second.document.get("tags", ())),
        "configuration": {**second.document.get("configuration", {}), **first.document.get("configuration", {})},
        "extensions": [block],
        "method": _method(id_, first, second),
        "rollbacks": _rollbacks(first, second),
    }
    return Experiment(path=first.path, document=document, extension=extension_of(document))


def _both(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys([*first, *second]))


def _target(id_: str, first: Json, second: Json) -> Json:
    """The first one's query, which asks of the node what both ask of it, and ``also`` what the second one selects there."""
    selects = (str(first.get("select")), str(second.get("select")))
    if "operand" in selects or all(select in _POD for select in selects):
        raise ExperimentError(f"{id_}: targets of {' and '.join(selects)} cannot be told apart by the activities of both")
    for name in ("shared", "mig"):
        if len({query[name] for query in (first, second) if query.get(name) is not None}) > 1:
            raise ExperimentError(f"{id_}: no node will do for both: they differ in target.{name}")
    return {
        **second,
        **first,
        "component": first.get("component", ""),
        "free": max(first.get("free", 0), second.get("free", 0)),
        "idle": bool(first.get("idle") or second.get("idle")),
        "labels": _both(first.get("labels", ()), second.get("labels", ())),
        "also": {"select": selects[1], "component": second.get("component", "")},
    }


def _longest(first: Mapping[str, SecondsByTarget], second: Mapping[str, SecondsByTarget]) -> dict[str, SecondsByTarget]:
    """The longer one of each duration; deadlines add up."""
    given = {name: [each[name] for each in (first, second) if name in each] for name in _both(first, second)}
    return {name: _join(sum if name == "deadline" else max, parts) for name, parts in given.items()}


def _join(how: Callable[[list[float]], float], parts: Iterable[SecondsByTarget]) -> SecondsByTarget:
    parts = list(parts)
    known = {kind: [value for part in parts if (value := part.on(kind)) is not None] for kind in _KINDS}
    return SecondsByTarget(**{kind.value: float(how(values)) for kind, values in known.items() if values})


def _after(first: Experiment, seconds: SecondsByTarget) -> SecondsByTarget:
    """A duration that begins when an experiment has done its part: longer by what that part waits at most."""
    waits = (given.get("within") or given.get("duration") for _, given in _calls(first.document["method"]))
    known = first.extension.seconds
    return _join(sum, [seconds, *(known[name] for name in waits if isinstance(name, str) and name in known)])


def _expectations(first: Experiment, second: Experiment, without: frozenset[str]) -> list[Json]:
    """Those of both, each once; one that only shares its name with another gets its experiment's id."""
    found: dict[str, Json] = {}
    for experiment in (first, second):
        for one in experiment.document["extensions"][0].get("expect", ()):
            wanted = dict(one)
            if experiment is second and wanted.get("within"):
                wanted["within"] = f"{wanted['within']} after {first.id}"
            if wanted["name"] in without or found.get(wanted["name"]) == wanted:
                continue
            if wanted["name"] in found:
                wanted["name"] += f" ({experiment.id})"
            found[wanted["name"]] = wanted
    return list(found.values())


def _calls(activities: Iterable[Json]) -> list[tuple[str, Json]]:
    return [(str(one["provider"]["func"]), one["provider"].get("arguments") or {}) for one in activities]


def _parts(method: list[Json]) -> tuple[list[Json], list[Json]]:
    """What an experiment prepares before its baseline is sampled, and what it does after that."""
    cut = next((index for index, (func, _) in enumerate(_calls(method), 1) if func == BASELINE), 0)
    return method[: max(cut - 1, 0)], method[cut:]


def _method(id_: str, first: Experiment, second: Experiment) -> list[Json]:
    """What both prepare, one baseline, what the first does, what the second does."""
    (prepared, acts), (more, then) = (_parts(each.document["method"]) for each in (first, second))
    known = dict(_calls(prepared))
    for func, given in _calls(more):
        if known.get(func, given) != given:
            raise ExperimentError(f"{id_}: both call {func}, with different arguments")
    prepared = [*prepared, *(one for one in more if one["provider"]["func"] not in known)]
    baseline = next((one for each in (first, second) for one in each.document["method"] if one["provider"]["func"] == BASELINE), None)
    found, names = [], set[str]()
    for activity in (*prepared, *([baseline] if baseline else ()), *acts, *then):
        name = str(activity["name"])
        name = f"{name} ({second.id})" if name in names else name
        names.add(name)
        found.append({**activity, "name": name})
    return found


def _rollbacks(first: Experiment, second: Experiment) -> list[Json]:
    """One rollback undoes everything, and watches for what either watches for."""
    rollbacks = [one for each in (first, second) for one in each.document.get("rollbacks", ())]
    watched = [given["watched"] for _, given in _calls(rollbacks) if given.get("watched")]
    arguments = {"arguments": {"watched": {"all": watched}, "within": "recovery"}} if watched else {}
    return [{**one, "provider": {**one["provider"], **arguments}} for one in rollbacks[:1]]
