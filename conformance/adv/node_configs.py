"""ADV-06: the device plugin's configuration that a node names, and whether the node advertises what follows from it.

Facts: docs/facts/device-plugin.md#configuration.
"""

from collections.abc import Iterator, Mapping

from fixtures.kubernetes.models import ConfigMap, Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.counts import physical_counts
from fixtures.model.devices.node_advertisement import GPU, NodeAdvertisement
from fixtures.model.devices.node_labels import view_of
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.plugin_settings import (
    CONFIG_LABEL,
    ConfigNotRead,
    ConfigReference,
    PluginConfig,
    PluginConfigError,
    config_maps,
    config_reference,
    heeded_policies,
    holders,
    installs_plugin,
    parse_config,
    plugin_daemonsets,
    strategy_flag,
    unproven_plugins,
)
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad
from fixtures.verdict.subjects import Inconclusive


def check_configs(scope: Scope) -> Iterator[Finding]:
    """One finding per NVIDIA node that a configuration applies to: by its label, or by the operator's default."""
    reference = config_reference(scope)
    maps = config_maps(scope, reference)
    unproven = "" if reference.namespace or plugin_daemonsets(scope) else unproven_plugins(scope)
    read: dict[tuple[str, str], PluginConfig | PluginConfigError | ConfigNotRead] = {}
    for node in scope.accelerator_nodes:
        labels = node.metadata.label
        key = labels.get(CONFIG_LABEL, "") or reference.default
        if not key or not (CONFIG_LABEL in labels or any(name.startswith("nvidia.com/") for name in node.capacity)):
            continue
        source = f"label {CONFIG_LABEL}" if labels.get(CONFIG_LABEL) else "ClusterPolicy spec.devicePlugin.config.default"
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
                read[place, key] = parse_config((holder.data or {})[key])
            except (PluginConfigError, ConfigNotRead) as error:
                read[place, key] = error
        yield _applied(scope, node, key, read[place, key], place, flag)


def _of_others(scope: Scope, node: Node) -> str:
    """Why no plugin of NVIDIA's registers the devices of a node, as a clause, or empty."""
    if split := split_of(node):
        return f"another plugin offers its devices (annotation {split.key})"
    heeded = heeded_policies(scope)
    if heeded and not any(map(installs_plugin, heeded)) and not any(admits(one.pod_spec, node) for one in plugin_daemonsets(scope)):
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
