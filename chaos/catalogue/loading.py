"""Reads experiment files strictly: refuses what chaostoolkit would ignore or do differently than it reads.

``chaos validate`` accepts misspelt keys, unresolved ``${}``, background activities and experiments without rollbacks; each of
them makes a run that looks good and is not (docs/facts/chaostoolkit.md#validation). All mistakes of a file come in one message.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from chaos.catalogue.extension_rules import KnownNames, mistakes
from chaos.model.experiment import Experiment
from chaos.model.extension_decoding import ExperimentError, decode_extension, unknown_name
from fixtures.text import users_files, yaml_text
from fixtures.text.yaml_text import NotYaml, RepeatedKey

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
