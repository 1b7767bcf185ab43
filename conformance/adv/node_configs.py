"""ADV-06: the device plugin's configuration that a node names, and whether the node advertises what follows from it.

Facts: docs/facts/device-plugin.md#configuration.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from fixtures.kubernetes.models import ConfigMap, Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.node_labels import GPU, NodeAdvertisement
from fixtures.model.devices.node_view import view_of
from fixtures.model.devices.physical import physical_counts
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.plugin_settings import (
    ConfigReference,
    config_maps,
    config_reference,
    heeded_policies,
    holders,
    installs_plugin,
    plugin_daemonsets,
    strategy_flag,
    unproven_plugins,
)
from fixtures.text import yaml_text
from fixtures.text.sentences import listed
from fixtures.text.yaml_text import NotRead, NotYaml
from fixtures.verdict.findings import About, Finding, bad
from fixtures.verdict.subjects import Inconclusive

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


LABEL = "nvidia.com/device-plugin.config"


def check_configs(scope: Scope) -> Iterator[Finding]:
    """One finding per NVIDIA node that a configuration applies to: by its label, or by the operator's default."""
    reference = config_reference(scope)
    maps = config_maps(scope, reference)
    unproven = "" if reference.namespace or plugin_daemonsets(scope) else unproven_plugins(scope)
    read: dict[tuple[str, str], PluginConfig | PluginConfigError | ConfigNotRead] = {}
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        key = labels.get(LABEL, "") or reference.default
        if not key or not (LABEL in labels or any(name.startswith("nvidia.com/") for name in node.status.capacity)):
            continue
        source = f"label {LABEL}" if labels.get(LABEL) else "ClusterPolicy spec.devicePlugin.config.default"
        about = About(subject(node), source)
        if others := _of_others(scope, node):
            yield about.not_judged(f"{others}: it does not read {key!r}")
            continue
        if unproven:
            yield about.undecided(unproven, cause="AgentsUnproven")
            continue
        try:
            flag = strategy_flag(scope, node)
        except Inconclusive as doubt:
            yield about.undecided(doubt.message, cause="TwoCandidates")
            continue
        holding = holders(scope, maps, key, node)
        if not holding:
            yield _missing(node, key, reference, maps, source, advertises=any(scope.device_capacity(node).values()))
            continue
        if len(holding) > 1:
            names = " and ".join(f"{item.namespace}/{item.name}" for item in holding)
            yield about.undecided(f"ConfigMaps {names} both hold {key!r}, and no plugin shows which it reads", cause="TwoCandidates")
            continue
        [holder] = holding
        place = f"{holder.namespace}/{holder.name}"
        if (place, key) not in read:
            try:
                read[place, key] = parse((holder.data or {})[key])
            except (PluginConfigError, ConfigNotRead) as error:
                read[place, key] = error
        yield _applied(scope, node, key, read[place, key], place, flag)


def _of_others(scope: Scope, node: Node) -> str:
    """Why no plugin of NVIDIA's registers the devices of a node, as a clause, or empty."""
    if split := split_of(node):
        return f"another plugin offers its devices (annotation {split.key})"
    heeded = heeded_policies(scope)
    if (
        heeded
        and not any(map(installs_plugin, heeded))
        and not any(admits(one.spec.template.spec, node) for one in plugin_daemonsets(scope))
    ):
        return "its ClusterPolicy has devicePlugin.enabled: false, and another plugin offers its devices"
    return ""


def _missing(node: Node, key: str, reference: ConfigReference, maps: list[ConfigMap], source: str, *, advertises: bool) -> Finding:
    known = sorted({name for item in maps for name in item.data or {}})[:8] if reference.config_map else []
    where = f"ConfigMap {reference.config_map}" if reference.config_map else "any ConfigMap of the platform's namespaces"
    keys = f"; it has {', '.join(known)}" if known else ""
    runs = "the plugin goes on with the file that it had, and its next start fails" if advertises else "the plugin does not start"
    message = f"its device plugin shall use {key!r}, which is not a key of {where}{keys}: {runs}"
    return bad(
        subject(node),
        cause="PluginConfigMissing",
        observed=f"{key!r} is missing",
        expected=f"a key of {where}",
        source=source,
        message=message,
    )


def _applied(
    scope: Scope, node: Node, key: str, config: PluginConfig | PluginConfigError | ConfigNotRead, place: str, flag: str
) -> Finding:
    source = f"ConfigMap {place}, node labels, node.status.capacity"
    about = About(subject(node), source)
    if isinstance(config, ConfigNotRead):
        message = f"{place} {key!r} is not read ({config}), so it is not known what the plugin makes of it"
        return about.undecided(message)
    if isinstance(config, PluginConfigError):
        message = (
            f"{place} {key!r} is refused by the plugin ({config}): the next start of this node's plugin fails and takes its devices away"
        )
        return about.bad(
            message, cause="PluginConfigRefused", observed=f"{key!r}: {config}", expected="a configuration that the plugin accepts"
        )
    capacity = {name: count for name, count in scope.device_capacity(node).items() if count > 0}
    if not capacity:
        return about.not_judged("it advertises no device, so nothing can be compared with the configuration (ADV-01)")
    view = view_of(scope, node)
    strategy = flag or config.mig_strategy or "none"
    predicted = _predicted(view, config)
    sources = [] if view.labelled or strategy != "none" else physical_counts(node, view, scope.policy, [])
    faults = [*_faults(view, config, strategy, capacity), *_uncounted(config, capacity, sources[0].devices if sources else 0)]
    if faults:
        message = f"{place} {key!r} predicts {predicted}, but {faults[0]}: the plugin runs with another configuration than the one named"
        return about.bad(message, cause="PluginConfigNotApplied", observed=faults[0], expected=f"{key!r}: {predicted}")
    shown = ", ".join(f"{name} {count}" for name, count in sorted(capacity.items()))
    if config.ignored:
        message = f"{place} {key!r} has keys that the plugin does not know and passes over without a word: {', '.join(config.ignored)}"
        return about.advised(
            message, cause="PluginConfigKeysIgnored", observed=listed(config.ignored), expected="keys that the plugin knows"
        )
    return about.ok(shown, expected=f"{key!r}: {predicted}")


def _uncounted(config: PluginConfig, capacity: Mapping[str, int], devices: int) -> Iterator[str]:
    """Units per device where no label of discovery, but a cloud or the policy counts ``devices`` (0: nobody does)."""
    name = config.advertised_as(GPU)
    units, rest = divmod(capacity.get(name, 0), devices) if devices else (0, 0)
    if units and not rest and units != config.factor(GPU):
        yield f"the node advertises {capacity[name]} {name}, which is {units} per device"


def _predicted(view: NodeAdvertisement, config: PluginConfig) -> str:
    resources = [entry.resource for entry in view.mig] if view.strategy == "mixed" and view.mig else [GPU]
    units = ", ".join(f"{config.advertised_as(name)} {config.factor(name)} per device" for name in resources)
    return f"MIG strategy {config.mig_strategy or 'none'}, {units}"


def _faults(view: NodeAdvertisement, config: PluginConfig, strategy: str, capacity: Mapping[str, int]) -> Iterator[str]:
    """Where the node differs. Numbers that are no multiple of the devices are ADV-03's: a factor cannot be read from them."""
    # nodes whose MIG is off need no label of a strategy that would only matter with it on
    if view.labelled and view.strategy != strategy and (view.strategy != "none" or view.gpu.product.mig_profile or view.mig):
        yield f"nvidia.com/mig.strategy says {view.strategy}"
    for resource, factor in config.replicas.items():
        other = resource if config.rename else f"{resource}.shared"
        if capacity.get(other) and not capacity.get(config.advertised_as(resource)):
            yield f"the node advertises {other}, not {config.advertised_as(resource)}"
        elif factor > 1 and resource == GPU and not view.labelled and capacity.get(config.advertised_as(resource), 0) % factor:
            yield f"{config.advertised_as(resource)} {capacity[config.advertised_as(resource)]} is no multiple of {factor}"
    for entry in (view.gpu, *view.mig):
        if not entry.count or (entry is view.gpu and view.strategy == "mixed" and view.mig):
            continue
        name = config.advertised_as(entry.resource)
        units, rest = divmod(capacity.get(name, 0), entry.count)
        if units and not rest and units != config.factor(entry.resource):
            yield f"the node advertises {capacity[name]} {name}, which is {units} per device"
        shared = f"{entry.resource}.shared"
        if name != shared and capacity.get(shared):
            yield f"the node advertises {shared}"
