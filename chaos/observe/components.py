"""Finds the components of a GPU stack, and decides which of several similar workloads is one.

Programs, mounts, images and labels (:mod:`fixtures.model.platform.components`) only say what looks like a component: everybody can copy
them. Which workload it is, is decided by its namespace and
its owner (:class:`fixtures.model.platform.namespaces.Platform`); where that leaves several, or none, no experiment touches
any of them. A default name of a namespace does not decide while a look-alike runs in another one. A policy may say which workload is
which (``chaos.components: {device-plugin: gpu-system/my-plugin}``), because charts are renamed and forked.

Names of components are the words that experiments use in ``needs``.

Facts: docs/facts/gpu-operator.md#agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec

from chaos.model.plan import InstalledComponent
from chaos.observe.devices import DOMAIN_DAEMON, daemon_sets
from chaos.observe.view import NoData, View, dig, full_name, items_of, labels_of, name_of, namespace_of, node_of, text_of, uid_of
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.models import Json, Node
from fixtures.model.platform.components import (
    DAEMON_SETS,
    DEPLOYMENTS,
    KNOWN,
    PLUGIN,
    VENDORS,
    Component,
    effect_of,
    has_image,
    is_labelled,
    is_part,
    may_be,
    runs_of,
    splits,
)
from fixtures.model.platform.namespaces import (
    OPENSHIFT_NODE,
    OPERATORS,
    Platform,
    Workload,
    operators_of,
    release_of,
    workload_names,
)
from fixtures.policy.marks import SLICES, Shown, drivers_of
from fixtures.policy.model import Tenants
from fixtures.text import typed
from fixtures.text.sentences import listed

REPLICA_SETS = "apps/replicasets"

DETECTORS = ("device-plugin", "host-engine")
"""Who remembers what NVML once said."""

NAMES = frozenset(component.name for component in KNOWN)

_SHARES = "shares NVIDIA's devices out"
_MEANT = "name the one that is meant in the policy's chaos.components"


class Components(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, and why the rest was not. ``unclear``: which workload is meant, or whether there is one, cannot be told."""

    found: dict[str, InstalledComponent] = {}
    absent: dict[str, str] = {}
    unclear: dict[str, str] = {}

    def get(self, name: str) -> InstalledComponent | None:
        """The component, or None."""
        return self.found.get(name)

    def missing(self, needs: tuple[str, ...]) -> str:
        """Why an experiment that needs these cannot be done here; empty when all are there."""
        known = {*self.found, *self.unclear}
        return "; ".join(self.absent.get(name, f"{name} is no known component") for name in needs if name not in known)

    def doubtful(self, names: Sequence[str]) -> str:
        """What is unclear about these components; empty when nothing is."""
        return "; ".join(self.unclear[name] for name in dict.fromkeys(names) if name in self.unclear)


class ComponentUnclear(Exception):
    """Several workloads could be the component, no owner proves those that look like it, or it is not the one that the policy names."""


def standing_of(view: View, tenants: Tenants, *, whole: bool = True) -> Platform:
    """What tells the platform's workloads from those that look like them.

    Raises :class:`NoData` where it is to be known ``whole``; else what cannot be read shows nothing. Unread DaemonSets show nothing anyway.
    """
    policies = {key: _listed(view, key, whole) for key in OPERATORS if view.serves(key)}
    operators = operators_of((KINDS[key].kind, item) for key, items in policies.items() for item in items)
    nodes = _listed(view, "nodes", whole)
    return Platform(
        tenants,
        openshift=any(OPENSHIFT_NODE in labels_of(node) for node in nodes),
        shown=_shown(view, nodes),
        operators=operators,
        daemonsets=[(namespace_of(item), name_of(item)) for item in _listed(view, DAEMON_SETS, whole=False)],
    )


def _listed(view: View, key: str, whole: bool) -> list[Json]:
    try:
        return view.select(key)
    except NoData:
        if whole:
            raise
        return []


def _shown(view: View, nodes: Iterable[Json]) -> Shown:
    """What of the cluster may prove that a product is installed."""
    groups = frozenset(group for name in view.resources or () if (group := name.partition(".")[2]))
    slices = _listed(view, SLICES, whole=False) if view.serves(SLICES) else []
    try:
        typed_nodes = [typed.convert(node, Node, strict=False) for node in nodes]
    except msgspec.ValidationError:
        typed_nodes = []
    return Shown(nodes=typed_nodes or None, drivers=drivers_of(slices) or None, groups=groups, resources=view.resources)


def find_components(view: View, standing: Platform, overrides: Mapping[str, str] | None = None) -> Components:
    """Look for every known component. Where a list cannot be read, it is unclear whether a component of that kind is installed.

    ``overrides`` maps a component to ``namespace/name`` of its workload. If that is not there, the component is absent, unless another
    workload looks like it.
    """
    overrides = overrides or {}
    found: dict[str, InstalledComponent] = {}
    absent: dict[str, str] = {}
    unclear: dict[str, str] = {}
    for component in KNOWN:
        try:
            named = overrides.get(component.name)
            if named:
                workload = _named(view, component, standing, named)
            elif component.name == DOMAIN_DAEMON and "dra-plugin" in unclear and view.serves(component.serves):
                raise ComponentUnclear(unclear["dra-plugin"])
            elif component.name == DOMAIN_DAEMON:
                workload = _of_domain(view, component, found.get("dra-plugin"))
            else:
                workload = _proven(view, component, standing)
            foreign = _foreign_plugin(view, component) if workload is None and not named else ""
            if workload is None and not named and not foreign.endswith(_SHARES) and (seen := _effect(view, component)):
                raise ComponentUnclear(f"{seen}, and no workload was found that looks like {component.name}: {_MEANT}")
        except ComponentUnclear as error:
            unclear[component.name] = str(error)
            continue
        except NoData as error:
            unclear[component.name] = f"whether {component.name} is installed cannot be told: {error}"
            continue
        if workload is None:
            where = f" at {overrides[component.name]}, where the policy says it is" if component.name in overrides else ""
            absent[component.name] = foreign or f"{component.name} is not installed{where}"
        else:
            found[component.name] = workload
    return Components(found=found, absent=absent, unclear=unclear)


def pods_of(view: View, found: InstalledComponent) -> list[Json]:
    """Pods that a component's workloads made: by the UID of their controller, or by that of their ReplicaSet's.

    Selectors only keep the lists short. Labels and names prove nothing. Raises :class:`NoData`.
    """
    return [pod for workload in found.workloads for pod in _made_by(view, workload)]


def on_node(view: View, found: InstalledComponent, node: str) -> InstalledComponent:
    """The component with the workload first that runs it on a node. Raises :class:`NoData`."""
    for one in found.workloads if found.others else ():
        if any(node_of(pod) == node for pod in _made_by(view, one)):
            others = tuple(msgspec.structs.replace(other, others=()) for other in found.workloads if other.uid != one.uid)
            return msgspec.structs.replace(one, others=others)
    return found


def _made_by(view: View, found: InstalledComponent) -> list[Json]:
    if not found.selector or not found.uid:
        return []  # an empty selector selects every pod of the namespace
    makers = {found.uid}
    if found.key == DEPLOYMENTS:
        makers |= {uid_of(item) for item in view.select(REPLICA_SETS, found.namespace) if controller_of(item) == found.uid}
    pods = view.select("pods", found.namespace, labels=found.selector)
    return [pod for pod in pods if not _ended(pod) and controller_of(pod) in makers - {""}]


def controller_of(obj: Json) -> str:
    """UID of the controller that made an object; empty when none did."""
    owners = items_of(dig(obj, "metadata").get("ownerReferences"))
    return next((text_of(owner.get("uid")) for owner in owners if owner.get("controller") is True), "")


def _ended(pod: Json) -> bool:
    return text_of(dig(pod, "status").get("phase")) in ("Succeeded", "Failed")


def _named(view: View, component: Component, standing: Platform, name: str) -> InstalledComponent | None:
    """The workload that the policy names; None where nothing is the component.

    Raises :class:`ComponentUnclear` when it is not there, and another one looks like it: in a namespace of the platform, or in the one
    that the policy names.
    """
    for key in (component.key, DAEMON_SETS, DEPLOYMENTS):
        for item in view.select(key):
            if full_name(item) == name:
                return _found(component, key, item)
    found = [_candidate(component.key, item) for item in unique(item for group in _look_alikes(view, component) for item in group)]
    others = [one for one in found if standing.of(one.namespace).components or one.namespace == name.partition("/")[0]]
    if others:
        names = workload_names(others)
        raise ComponentUnclear(
            f"the policy's chaos.components says that {component.name} is {name}, which is not there: {names} looks like it"
        )
    return None


def _look_alikes(view: View, component: Component) -> list[list[Json]]:
    """Workloads that look like a component, surest first: by what they run and are called, by program or mount, by labels, by image.

    Raises :class:`NoData`.
    """
    workloads = [(item, runs_of(item)) for item in view.select(component.key) if _runs(component.key, item)]
    runs = [item for item, runs in workloads if is_part(component, runs)]
    imaged = [item for item, runs in workloads if has_image(component, runs)]
    labelled = [item for item, runs in workloads if is_labelled(component, runs)]
    return [[item for item in labelled if item in runs or item in imaged], runs, labelled, imaged]


def unique(items: Iterable[Json]) -> list[Json]:
    """The workloads in order, each once."""
    return list({uid_of(item) or full_name(item): item for item in items}.values())


def _effect(view: View, component: Component) -> str:
    """What the cluster shows that only this component brings about, as a clause; empty where it shows nothing. Raises :class:`NoData`."""
    if component.name == "operator" and view.serves(component.serves):
        states = {name_of(item): text_of(dig(item, "status").get("state")) for item in view.select(component.serves)}
        return next((f"ClusterPolicy {name} is {state}" for name, state in sorted(states.items()) if state), "")
    if component.name == "dra-plugin" and view.serves(component.serves):
        drivers = sorted({text_of(dig(item, "spec").get("driver")) for item in view.select(component.serves)})
        return next((f"ResourceSlices of {driver} are published" for driver in drivers if driver.endswith("nvidia.com")), "")
    if component.resources or component.marks:
        return effect_of(component, view.select("nodes"))
    return ""


def _foreign_plugin(view: View, component: Component) -> str:
    """That devices are registered by a plugin which no experiment knows, as a sentence; empty where there is none."""
    if component.name != PLUGIN:
        return ""
    for item in view.select(DAEMON_SETS):
        runs = runs_of(item)
        if runs.vendor and (runs.vendor != "NVIDIA" or splits(runs)):
            here = f"experiments know NVIDIA's own device plugin only, and here DaemonSet {full_name(item)}"
            return f"{here} {_SHARES}" if runs.vendor == "NVIDIA" else f"{here} registers devices of {runs.vendor}"
    others = tuple(f"{domain}/" for vendor, domain, _ in VENDORS if vendor != "NVIDIA")
    seen = effect_of(Component(name=PLUGIN, resources=others), view.select("nodes"))
    return f"experiments know NVIDIA's own device plugin only, and here {seen}" if seen else ""


def _proven(view: View, component: Component, standing: Platform) -> InstalledComponent | None:
    """The workload that is the component: of those that look like it by labels, else by image. Raises :class:`ComponentUnclear`."""
    if component.serves and not view.serves(component.serves):
        return None
    about = partial(_candidate, component.key)
    groups = _look_alikes(view, component)
    proven = next((found for group in groups if (found := standing.resolve(group, about))), [])
    alike = unique(item for group in groups for item in group)
    rivals = [item for item in alike if item in proven or may_be(component, runs_of(item))]
    if len({namespace_of(item) for item in rivals}) > 1 and any(standing.unproven(about(item)) for item in proven):
        proven = _without_default_names(component, rivals, standing)
    if len(proven) > 1 and (apart := _on_nodes_of_their_own(view, component, proven)):
        return apart
    if len(proven) > 1:
        raise ComponentUnclear(f"{workload_names(map(about, proven))} could all be {component.name}: {_MEANT}")
    if proven:
        return _found(component, component.key, proven[0])
    if alike:
        how = "expected it in a namespace of the platform, or named by the policy (chaos.components, tenants.moreInfrastructure)"
        raise ComponentUnclear(f"{workload_names(map(about, alike))} looks like {component.name}, and nothing proves it: {how}")
    return None


def _without_default_names(component: Component, alike: Sequence[Json], standing: Platform) -> list[Json]:
    """Of workloads of several namespaces that look alike, those that an owner or the policy proves to be the component.

    Whoever may create namespaces can take a default name that is free, and the true component may run where nothing is known of it.
    Raises :class:`ComponentUnclear` if nothing but default names decides.
    """
    about = partial(_candidate, component.key)
    proven = standing.resolve(alike, about)
    unproven = sorted({namespace_of(item) for item in proven if standing.unproven(about(item))})
    if not unproven:
        return proven
    rest = [item for item in alike if not standing.unproven(about(item))]
    if any(standing.of(namespace_of(item)).by_owner for item in rest):
        return standing.resolve([item for item in rest if is_labelled(component, runs_of(item))], about) or standing.resolve(rest, about)
    names, why = workload_names(map(about, alike)), f"only a default name makes {listed(unproven)} the platform's"
    raise ComponentUnclear(f"{names} could all be {component.name}, and {why}: {_MEANT}, or its namespace in tenants.moreInfrastructure")


def _on_nodes_of_their_own(view: View, component: Component, items: Sequence[Json]) -> InstalledComponent | None:
    """Several DaemonSets of one namespace as one component, if each runs and no node runs two of them; else None.

    Clouds have one for each kind of node, charts one for each pool. Raises :class:`NoData`.
    """
    first, *others = sorted((_found(component, component.key, item) for item in items), key=lambda one: one.name)
    if component.key != DAEMON_SETS or any(one.namespace != first.namespace for one in others):
        return None
    nodes = [{node_of(pod) for pod in _made_by(view, one)} - {""} for one in (first, *others)]
    apart = all(nodes) and sum(map(len, nodes)) == len(set[str]().union(*nodes))
    return msgspec.structs.replace(first, others=tuple(others)) if apart else None


def _of_domain(view: View, component: Component, driver: InstalledComponent | None) -> InstalledComponent | None:
    """The daemons of the one ComputeDomain that has any: one DaemonSet, in the namespace of its driver.

    Domains are tenants', and so is their status: nothing of theirs decides which of several is taken. Raises :class:`ComponentUnclear`.
    """
    if driver is None or not view.serves(component.serves):
        return None
    daemons = daemon_sets(view, driver.namespace)
    if len(daemons) > 1 and len({uid_of(domain) for _, domain in daemons}) == 1:
        same = " and ".join(full_name(item) for item, _ in daemons)
        raise ComponentUnclear(f"{same} are both labelled as the daemons of one ComputeDomain")
    if len(daemons) > 1:
        names = " and ".join(f"DaemonSet {full_name(item)} of ComputeDomain {full_name(domain)}" for item, domain in daemons)
        raise ComponentUnclear(f"{names} could all be {component.name}: {_MEANT}")
    return _found(component, component.key, daemons[0][0]) if daemons else None


def _candidate(key: str, item: Json) -> Workload:
    meta = dig(item, "metadata")
    owners = tuple(text_of(owner.get("uid")) for owner in items_of(meta.get("ownerReferences")))
    kind = KINDS[key].kind
    return Workload(kind=kind, namespace=namespace_of(item), name=name_of(item), owners=owners, release=release_of(meta))


def _runs(key: str, item: Json) -> bool:
    """Whether a workload wants any pod: a DaemonSet for no node, and a Deployment scaled to none, run nothing."""
    if key == DAEMON_SETS:
        return bool(dig(item, "status").get("desiredNumberScheduled"))
    return bool(dig(item, "spec").get("replicas", 1) != 0)


def _found(component: Component, key: str, item: Json) -> InstalledComponent:
    return InstalledComponent(
        component=component.name,
        key=key,
        namespace=namespace_of(item),
        name=name_of(item),
        uid=uid_of(item),
        selector=_selector(dig(item, "spec", "selector")),
        images=runs_of(item).images,
    )


def _selector(wanted: Json) -> str:
    """A workload's selector in words that the API takes: labels and expressions."""
    words = [f"{name}={value}" for name, value in sorted(dig(wanted, "matchLabels").items())]
    for item in items_of(wanted.get("matchExpressions")):
        key, values = text_of(item.get("key")), ",".join(map(str, item.get("values") or ()))
        known = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        words.append(known.get(text_of(item.get("operator")), f"{key} in ()"))  # what is not known is refused by the API
    return ",".join(words)
