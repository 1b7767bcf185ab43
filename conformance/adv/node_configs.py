"""ADV-06: the device plugin's configuration that a node names, and whether the node advertises what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from conformance.adv.plugin_config import ConfigNotRead, PluginConfig, PluginConfigError, parse
from fixtures.kubernetes.models import ConfigMap, DaemonSet, Json, Node, PodSpec
from fixtures.kubernetes.untyped import mapping, text_of
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.node_labels import GPU, NodeAdvertisement
from fixtures.model.devices.node_view import view_of
from fixtures.model.devices.physical import physical_counts
from fixtures.model.devices.scheduler_amounts import split_of
from fixtures.model.placement.affinity import admits
from fixtures.model.platform.agents import is_agent, is_named, look_alikes, workload_of
from fixtures.model.platform.components import mounts_plugin_folder
from fixtures.model.platform.namespaces import CLUSTER_POLICIES, is_heeded
from fixtures.model.platform.workloads import workload_names
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, bad
from fixtures.verdict.subjects import Inconclusive

LABEL = "nvidia.com/device-plugin.config"
_STRATEGY_ENV = "MIG_STRATEGY"


class ConfigReference(msgspec.Struct, frozen=True, kw_only=True):
    """The operator's settings: ConfigMap name, default key, namespace of the operands. Empty where they are not set."""

    config_map: str = ""
    default: str = ""
    namespace: str = ""


def config_reference(scope: Scope) -> ConfigReference:
    """``spec.devicePlugin.config`` of the ClusterPolicy that its operator acts upon, if there is one.

    Raises :class:`Inconclusive` when several say different things.
    """
    found: dict[ConfigReference, str] = {}
    for policy in _heeded(scope):
        config = mapping(policy, "spec", "devicePlugin", "config")
        if config.get("name") and installs_plugin(policy):
            reference = ConfigReference(
                config_map=str(config["name"]),
                default=text_of(config.get("default")),
                namespace=text_of(mapping(policy, "status").get("namespace")),
            )
            found.setdefault(reference, text_of(mapping(policy, "metadata").get("name")))
    if len(found) > 1:
        raise Inconclusive("TwoCandidates", f"ClusterPolicies {' and '.join(sorted(found.values()))} name different configurations")
    return next(iter(found), ConfigReference())


def _heeded(scope: Scope) -> list[Json]:
    return list(filter(is_heeded, scope.snapshot.listing(CLUSTER_POLICIES).objects))


def installs_plugin(policy: Json) -> bool:
    """Whether a ClusterPolicy has its operator install NVIDIA's plugin, as it does where it says nothing."""
    return mapping(policy, "spec", "devicePlugin").get("enabled") is not False


def candidates(scope: Scope, reference: ConfigReference) -> list[ConfigMap]:
    """ConfigMaps that may hold plugin configurations: the named one, else those of namespaces where agents are."""
    maps = [item for item in scope.snapshot.configmaps if not reference.config_map or item.name == reference.config_map]
    if reference.config_map and reference.namespace:
        return [item for item in maps if item.namespace == reference.namespace]
    homes = {item.namespace for item in scope.snapshot.listing("apps/daemonsets").items if is_agent(scope, item)}
    return [item for item in maps if item.namespace in homes or scope.platform_workloads.admits(item.namespace)]


def holders(scope: Scope, maps: list[ConfigMap], key: str, node: Node) -> list[ConfigMap]:
    """ConfigMaps that hold a configuration of that name: those that a node's plugin mounts, else those beside it, else all of them."""
    holding = [item for item in maps if key in (item.data or {})]
    plugins = _plugins(scope, node)
    mounted = {(plugin.namespace, name) for plugin in plugins for name in _mounted(plugin.spec.template.spec)}
    beside = {plugin.namespace for plugin in plugins}
    for near in (
        [item for item in holding if (item.namespace, item.name) in mounted],
        [item for item in holding if item.namespace in beside],
    ):
        if near:
            return near
    return holding


def _mounted(spec: PodSpec) -> list[str]:
    """Names of the ConfigMaps that a pod mounts."""
    return [name for volume in spec.volumes or () if (name := text_of(mapping(volume.get("configMap")).get("name")))]


def _plugins(scope: Scope, node: Node | None = None) -> list[DaemonSet]:
    """DaemonSets of device plugins, or of those that select a node: charts and clouds install one per pool, each with its own settings."""
    every = scope.cached(_every_plugin)
    return every if node is None else [item for item in every if admits(item.spec.template.spec, node)] or every


def _every_plugin(scope: Scope) -> list[DaemonSet]:
    """DaemonSets of device plugins: those that the policy names, else those that an operator owns, else all that are where agents are."""
    found = [item for item in scope.snapshot.listing("apps/daemonsets").items if _is_plugin(item) and is_agent(scope, item)]
    return [item for item in found if is_named(scope, item)] or scope.platform_workloads.resolve(found, workload_of)


def _is_plugin(daemonset: DaemonSet) -> bool:
    """Whether a DaemonSet may be NVIDIA's plugin; those of networks sit in the same folder."""
    looks = "device-plugin" in daemonset.name or mounts_plugin_folder(daemonset.spec.template.spec)
    return looks and not any(word in daemonset.name for word in ("rdma", "sriov"))


def _unproven_plugins(scope: Scope) -> str:
    """Why it is unknown which plugin reads the configuration, if DaemonSets look like one; empty if none does."""
    plugins = [item for item in look_alikes(scope) if _is_plugin(item)]
    names = workload_names(workload_of(item) for item in plugins)
    return f"{names} may be its plugin and is not known to be the platform's (policy tenants.moreInfrastructure)" if plugins else ""


def strategy_flag(scope: Scope, node: Node | None = None) -> str:
    """MIG strategy that the DaemonSet of a node's plugin (or of any) sets by environment: it wins over the file.

    Facts: docs/facts/device-plugin.md#precedence-of-settings.
    Raises :class:`Inconclusive` when several plugins set different ones.
    """
    found: dict[str, str] = {}
    for item in _plugins(scope, node):
        for container in item.spec.template.spec.containers:
            for entry in container.env or ():
                if entry.get("name") == _STRATEGY_ENV and isinstance(entry.get("value"), str):
                    found.setdefault(str(entry["value"]), str(workload_of(item)))
    if len(found) > 1:
        raise Inconclusive("TwoCandidates", f"{' and '.join(sorted(found.values()))} set different MIG strategies")
    return next(iter(found), "")


def check_configs(scope: Scope) -> Iterator[Finding]:
    """One finding per NVIDIA node that a configuration applies to: by its label, or by the operator's default."""
    reference = config_reference(scope)
    maps = candidates(scope, reference)
    unproven = "" if reference.namespace or _plugins(scope) else _unproven_plugins(scope)
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
    heeded = _heeded(scope)
    if heeded and not any(map(installs_plugin, heeded)) and not any(admits(one.spec.template.spec, node) for one in _plugins(scope)):
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
