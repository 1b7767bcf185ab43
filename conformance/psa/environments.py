"""What ConfigMaps and Secrets put into the environment of containers that take all of their keys (``envFrom``)."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from fixtures.kubernetes.models import Container
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.snapshot.state import Snapshot
from fixtures.text.yaml_text import packaged


class _Variables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of variables; ``devices`` with the domain of the vendor's resources, ``narrow`` before ``_VISIBLE_DEVICES``."""

    devices: dict[str, str]
    features: tuple[str, ...]
    in_secrets: tuple[str, ...]
    narrow: frozenset[str]


_KNOWN = packaged(Path(__file__).with_suffix(".yaml"), _Variables)
DEVICES, FEATURES = _KNOWN.devices, _KNOWN.features
VARIABLES = (*DEVICES, *FEATURES)

_MAY_ADD = "NVIDIA_GDRCOPY"
_CHOOSES = re.compile(r"(?!RAY_)([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)?)_VISIBLE_DEVICES")

HARMLESS = frozenset({"", "void", "none"})
"""Values that give no device: they close the door instead of opening it (docs/facts/container-runtimes.md#device-variables)."""

NO_VALUE = "(not known)"
"""What stands for the value of a key that no ConfigMap has."""


def opens(name: object, value: str) -> bool:
    """Whether a runtime adds devices by a variable of this value."""
    return value.strip() == "enabled" if name in FEATURES else name in DEVICES and value.strip() not in HARMLESS


def may_open(entry: Mapping[str, Any]) -> str:
    """The variable of a container's environment by which a runtime may add devices, where nothing tells; else empty."""
    name, value = text_of(entry.get("name")), text_of(entry.get("value")).strip()
    if name == _MAY_ADD or name in FEATURES:
        return name if "valueFrom" in entry or "$(" in value or (name == _MAY_ADD and value == "enabled") else ""
    chooses = _CHOOSES.fullmatch(name) if name not in DEVICES else None
    unknown = chooses is not None and chooses[1] not in _KNOWN.narrow
    return name if unknown and ("valueFrom" in entry or value not in HARMLESS) else ""


def in_secrets(offered: Iterable[str]) -> tuple[str, ...]:
    """Variables that a Secret may set: those of the usual vendors, and of the vendors whose resources nodes offer."""
    domains = {name.partition("/")[0] for name in offered}
    return tuple(name for name, domain in DEVICES.items() if name in _KNOWN.in_secrets or (domain in domains and domain != "nvidia.com"))


class Environments:
    """Guarded variables in ConfigMaps. Secrets are never read."""

    def __init__(self, snapshot: Snapshot, guarded: Sequence[str]) -> None:
        self._snapshot, self._guarded = snapshot, guarded

    @cached_property
    def _data(self) -> dict[tuple[str, str], Mapping[str, str]]:
        return {(config.namespace, config.name): config.data or {} for config in self._snapshot.configmaps}

    @property
    def known(self) -> bool:
        """Whether ConfigMaps were read: a saved snapshot may not hold them."""
        return self._snapshot.served("configmaps")

    def variables(self, namespace: str, sources: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
        """Guarded variables by name: value and the ConfigMap it is from. The last source that has a key wins."""
        found = {}
        for source in sources:
            config, prefix = text_of(mapping(source.get("configMapRef")).get("name")), text_of(source.get("prefix"))
            data = self._data.get((namespace, config), {}) if config else {}
            for name in self._guarded:
                if name.startswith(prefix) and (value := data.get(name.removeprefix(prefix))) is not None:
                    found[name] = value, config
        return found

    def of_key(self, namespace: str, source: object) -> str:
        """What a ConfigMap gives to a variable (``valueFrom``); words in brackets, which are no device, where nobody can tell."""
        ref = mapping(mapping(source).get("configMapKeyRef"))
        name, key = text_of(ref.get("name")), text_of(ref.get("key"))
        return (self._data.get((namespace, name)) or {}).get(key, NO_VALUE)


def takes_config(container: Container) -> bool:
    """Whether a container takes all keys of a ConfigMap."""
    return any("configMapRef" in source for source in container.env_from or ())


def secrets_taken(container: Container, guarded: Sequence[str], environments: Environments, namespace: str) -> list[str]:
    """Names of Secrets any key of which may become a guarded variable: ``env`` and later ConfigMaps win over them."""
    stated = {entry.get("name") for entry in container.env or ()}
    found: dict[str, str] = {}  # Secret by the variable that it may set
    for source in container.env_from or ():
        prefix, secret = text_of(source.get("prefix")), text_of(mapping(source.get("secretRef")).get("name"))
        if secret:
            found |= {name: secret for name in guarded if name.startswith(prefix) and name not in stated}
        elif environments.known:
            for name in environments.variables(namespace, [source]):
                found.pop(name, None)
    return list(dict.fromkeys(found.values()))
