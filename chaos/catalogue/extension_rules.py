"""Rules for the suite's block of an experiment file: known names, conditions, durations, rollbacks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec

from chaos.model.conditions import ConditionError, parse_condition, signals_of
from chaos.model.experiment import REQUIRED_SECONDS, SELF_HEALING, Extension
from chaos.model.extension_decoding import unknown_name
from chaos.model.levels import Level
from fixtures.verdict.record import TargetKind

MODULES = ("chaos.activities", "chaos.probes")
"""Where activities may come from; nothing else is ever called."""

FIDELITIES = ("simulated", "telemetry", "log", "real")


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
    yield from _rollbacks(document, extension)


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
        yield f"{where}.fidelity: expected a kind of target ({', '.join(_kinds())})"
    for kind in extension.fidelity:
        if kind not in _kinds():
            yield f"{where}.fidelity: {kind} carries no experiments"
    select = extension.target.get("select")
    if not isinstance(select, str):
        yield f"{where}.target.select: expected the name of a selector"
    else:
        yield from _all_known(f"{where}.target.select", [select], known.selectors)
    if not extension.area:
        yield f"{where}.area: expected at least one area of the catalogue"
    if not re.fullmatch(r"[A-Z][0-9]{1,2}[a-z]?", extension.id):
        yield f"{where}.id: expected a letter and a number, got {extension.id!r}"


def _kinds() -> tuple[TargetKind, ...]:
    return (TargetKind.SIMULATED, TargetKind.LOCAL, TargetKind.LIVE)


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
            elif value < 0 or (name in (*REQUIRED_SECONDS, "sample", "gap", "grace") and value <= 0):
                yield f"seconds.{name}: {value:g} is no duration"
    sample = extension.seconds.get("sample")
    if sample and any((sample.on(kind) or 0) > 1 for kind in extension.fidelity):
        yield "seconds.sample: at most one second, or recovery times mean nothing"


def _rollbacks(document: dict[str, Any], extension: Extension) -> Iterator[str]:
    if not document.get("rollbacks") and set(extension.undo) - SELF_HEALING:
        yield f"rollbacks: expected at least one: {', '.join(sorted(set(extension.undo) - SELF_HEALING))} does not heal by itself"
