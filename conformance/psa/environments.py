"""What ConfigMaps and Secrets put into the environment of containers that take all of their keys (``envFrom``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from fixtures.kubernetes.models import Container
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.snapshot.state import Snapshot

VARIABLES = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES")
HARMLESS = frozenset({"", "void", "none"})
"""Values that give no device: they close the door instead of opening it (docs/facts/container-runtimes.md#device-variables)."""


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
        return (self._data.get((namespace, name)) or {}).get(key, "(not known)")


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
