"""The device plugin's configuration file: what it says, or why the plugin refuses it (docs/facts/device-plugin.md#configuration)."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import msgspec

from fixtures.text import yaml_text
from fixtures.text.yaml_text import NotRead, NotYaml

MAX_BYTES = 256 * 1024
_PREFIX = "nvidia.com/"
_STRATEGIES = ("none", "single", "mixed")
_KNOWN: Mapping[str, tuple[str, ...]] = {
    "": ("version", "flags", "resources", "sharing", "imex"),
    "sharing": ("timeSlicing", "mps"),
    "sharing of time-slicing": ("renameByDefault", "failRequestsGreaterThanOne", "resources"),
    "sharing of mps": ("renameByDefault", "failRequestsGreaterThanOne", "resources"),
    "an entry of resources": ("name", "rename", "devices", "replicas"),
}
"""Keys that the plugin knows, by section. Of ``flags`` there are many, and each release has more: those of other sections are judged."""

_ELSEWHERE = {
    **dict.fromkeys(("timeSlicing", "mps"), "sharing"),
    **dict.fromkeys(("renameByDefault", "failRequestsGreaterThanOne", "replicas"), "sharing.timeSlicing or sharing.mps"),
}
"""Keys that people write under ``flags``, and where they belong."""


class PluginConfigError(Exception):
    """The plugin does not start with this text; the message is one clause."""


class ConfigNotRead(Exception):
    """The plugin may start with this text, and it is not read here; the message is one clause."""


class PluginConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a configuration makes of devices. ``replicas`` by resource name; ``mig_strategy`` None: the file leaves it open."""

    mig_strategy: str | None = None
    sharing: str = "none"  # none | time-slicing | mps
    replicas: Mapping[str, int] = {}
    rename: bool = False
    ignored: tuple[str, ...] = ()  # keys that the plugin does not know and passes over without a word

    def factor(self, resource: str) -> int:
        """Units per device of a resource, by its name without ``.shared``."""
        return self.replicas.get(resource, 1)

    def advertised_as(self, resource: str) -> str:
        """The name under which units of a resource are registered."""
        return f"{resource}.shared" if self.rename and self.factor(resource) > 1 else resource


def parse(text: str) -> PluginConfig:
    """Read a configuration. Raises :class:`PluginConfigError` where the plugin would not start, :class:`ConfigNotRead`."""
    try:
        document = yaml_text.load(text, most=MAX_BYTES)
    except NotRead as error:
        raise ConfigNotRead(str(error)) from error
    except NotYaml as error:
        raise PluginConfigError(f"malformed YAML: {error}") from error
    config = _of_any_case(_section(document, "the file"), *_KNOWN[""])
    ignored = _ignored(config, "")
    version = config.get("version")
    if version not in (None, "", "v1"):
        raise PluginConfigError(f"unknown version: {str(version)[:40]}")
    flags = _of_any_case(_section(config.get("flags"), "flags"), "migStrategy", *_ELSEWHERE)
    ignored += tuple(f"{key} in flags (it belongs in {section})" for key, section in _ELSEWHERE.items() if key in flags)
    strategy = flags.get("migStrategy")
    if strategy not in (None, "", *_STRATEGIES):
        raise PluginConfigError(f"flags.migStrategy is {str(strategy)[:40]!r}, which is none of {', '.join(_STRATEGIES)}")
    sharing = _of_any_case(_section(config.get("sharing"), "sharing"), *_KNOWN["sharing"])
    ignored += _ignored(sharing, "sharing")
    kinds = {name: sharing[key] for key, name in (("timeSlicing", "time-slicing"), ("mps", "mps")) if sharing.get(key)}
    if len(kinds) > 1:
        raise PluginConfigError("sharing has both timeSlicing and mps, which exclude each other")
    read = PluginConfig(mig_strategy=strategy or None, ignored=ignored)
    for name, section in kinds.items():
        ignored += _ignored(_section(section, f"sharing of {name}"), f"sharing of {name}")
        replicas, rename = _shared(_section(section, f"sharing of {name}"), name)
        if name == "mps" and strategy in ("single", "mixed") and any(key.startswith(f"{_PREFIX}mig-") for key in replicas):
            raise PluginConfigError("sharing using MPS is not supported for MIG devices")
        read = msgspec.structs.replace(read, sharing=name, replicas=replicas, rename=rename, ignored=ignored)
    return read


def _shared(section: Mapping[str, Any], name: str) -> tuple[dict[str, int], bool]:
    resources = section.get("resources")
    if not isinstance(resources, list) or not resources:
        raise PluginConfigError(f"no resources specified for {name}")
    replicas: dict[str, int] = {}
    for entry in resources:
        item = _section(entry, "an entry of resources")
        resource, count = item.get("name"), item.get("replicas")
        if not isinstance(resource, str) or not resource:
            raise PluginConfigError("an entry of resources has no name")
        if not isinstance(count, int) or isinstance(count, bool) or count < 2:
            raise PluginConfigError(f"number of replicas must be >= 2 ({resource[:63]}: {str(count)[:20]})")
        full = resource if resource.startswith(_PREFIX) else _PREFIX + resource
        if len(full) > 63:
            raise PluginConfigError(f"the resource name {full[:63]}… is longer than 63 characters")
        replicas[full] = count
    rename = section.get("renameByDefault", False)
    if not isinstance(rename, bool):
        raise PluginConfigError("renameByDefault is neither true nor false")
    return replicas, rename


def _section(value: Any, what: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PluginConfigError(f"{what} is not a mapping")
    return value


def _of_any_case(section: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """The keys as the plugin spells them. It decodes the outer sections as Go does, in any case, and the sharing of resources exactly."""
    spelled = {name.lower(): name for name in names}
    return {spelled.get(str(key).lower(), str(key)): value for key, value in section.items()}


def _ignored(section: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Keys of a section that the plugin passes over, with the section's name and a known key that they resemble."""
    found = []
    for key in sorted(section.keys() - set(_KNOWN[where])):
        near = difflib.get_close_matches(key, _KNOWN[where], n=1, cutoff=0.6)
        found.append(f"{key[:40]}{f' in {where}' if where else ''}{f' (did it mean {near[0]}?)' if near else ''}")
    return tuple(found[:5])
