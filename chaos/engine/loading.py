"""Reads experiment files strictly: what chaostoolkit lets pass and what would act otherwise than it reads is refused here.

``chaos validate`` accepts misspelt keys, unresolved ``${}``, background activities and experiments without rollbacks; each of
them makes a run that looks good and is not. All mistakes of a file come in one message.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from chaos.engine.block import Known, mistakes, unknown
from chaos.experiment import EXTENSION, Experiment, Extension
from fixtures import yaml_text
from fixtures.yaml_text import NotYaml

_TOP = {"version", "title", "description", "tags", "contributions", "configuration", "extensions", "steady-state-hypothesis", "method"} | {
    "rollbacks"
}
_ACTIVITY = {"type", "name", "provider", "tolerance"}
_PROVIDER = {"type", "module", "func", "arguments"}
_UNRESOLVED = re.compile(r"\$\{([^}]*)\}")
_EXPECTED_TYPES = {field.name: field for field in msgspec.structs.fields(Extension)}


class ExperimentError(Exception):
    """An experiment file cannot be used; one line per mistake."""


def load(path: Path, known: Known) -> Experiment:
    """Read one experiment. Raises :class:`ExperimentError` with everything that is wrong with it."""
    try:
        document = yaml_text.load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ExperimentError(f"{path}: {error.strerror or error}") from None
    except (NotYaml, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: not YAML: {' '.join(str(error).split())[:300]}") from None
    return build(document, known, str(path))


def build(document: object, known: Known, where: str) -> Experiment:
    """Check a decoded document. Raises :class:`ExperimentError` with everything that is wrong with it."""
    if not isinstance(document, dict):
        raise ExperimentError(f"{where}: expected an object, got {type(document).__name__}")
    extension, errors = _extension(document)
    errors += [*_document(document, known), *_toolkit(document)]
    if extension is not None:
        errors += mistakes(document, extension, known)
    if errors or extension is None:
        raise ExperimentError("\n".join(f"{where}: {error}" for error in dict.fromkeys(errors)))
    return Experiment(path=where, document=document, extension=extension)


def extension_of(document: dict[str, Any]) -> Extension:
    """Our block of a document that was checked before. Raises :class:`ExperimentError` when it is none any more."""
    extension, errors = _extension(document)
    if extension is None:
        raise ExperimentError("; ".join(errors))
    return extension


def _extension(document: dict[str, Any]) -> tuple[Extension | None, list[str]]:
    """Our block, field by field, so that every mistake of it is told at once."""
    blocks = document.get("extensions")
    found = [block for block in blocks if isinstance(block, dict) and block.get("name") == EXTENSION] if isinstance(blocks, list) else []
    if len(found) != 1 or not isinstance(blocks, list) or len(blocks) != 1:
        return None, [f"extensions: expected exactly one block, {{name: {EXTENSION}, ...}}"]
    errors = [unknown("extensions", key, _EXPECTED_TYPES) for key in found[0] if key not in _EXPECTED_TYPES]
    values = {}
    for name, field in _EXPECTED_TYPES.items():
        if name not in found[0]:
            if field.required:
                errors.append(f"extensions: {name} is missing")
            continue
        try:
            values[name] = msgspec.convert(found[0][name], field.type)
        except msgspec.ValidationError as error:
            errors.append(f"extensions.{name}: {error}")
    return (None if errors else Extension(**values)), errors


# -- the chaostoolkit document ---------------------------------------------------------------------------


def _document(document: dict[str, Any], known: Known) -> Iterator[str]:
    for key in document:
        if key not in _TOP:
            yield unknown("experiment", key, _TOP)
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


def _activity(activity: object, where: str, known: Known, names: set[str]) -> Iterator[str]:
    if not isinstance(activity, dict):
        yield f"{where}: expected an activity"
        return
    allowed = _ACTIVITY if where.startswith("steady") else _ACTIVITY - {"tolerance"}
    for key in activity:
        if key not in allowed:
            yield unknown(where, key, allowed)
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
            yield unknown(f"{where}.provider", key, _PROVIDER)
    if provider.get("type") != "python":
        yield f"{where}.provider.type: expected python, got {provider.get('type')!r}"
        return
    yield from _function(provider, f"{where}.provider", known)


def _function(provider: dict[str, Any], where: str, known: Known) -> Iterator[str]:
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
