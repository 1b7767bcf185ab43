"""Turns an experiment into a plan: targets chosen once and frozen, one healthy GPU node left out, every duration resolved.

An empty choice is an error, never "nothing to do": an experiment without an object proves nothing.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from chaos.model.conditions import parse_condition, plain_value, words_of
from chaos.model.experiment import SLOW_START, Experiment, needs_cordoned
from chaos.model.plan import Device, Plan, PlanFacts
from chaos.observe.signals.metrics import samples_of
from chaos.observe.view import NoData, View
from chaos.plan import selectors
from conformance.outputs.captured_text import Unreadable
from fixtures.cluster.client import Cluster
from fixtures.kubernetes.models import Json, Taint
from fixtures.model.dra.nvidia_driver import DEVICE_CLASS, DOMAIN_DAEMON, DRA_PLUGIN
from fixtures.model.dra.slices import TAINT_RULES
from fixtures.model.nodes.holds import is_temporary
from fixtures.model.nodes.work import tolerable
from fixtures.model.objects import is_ready, name_of, node_of, uid_of
from fixtures.model.platform.installed import DETECTORS, Components, find_components, on_node, pods_of, standing_of
from fixtures.policy.model import Policy
from fixtures.text import typed
from fixtures.verdict.record import TargetKind

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,79}")
_PCI = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]")
"""A pod's page says which devices there are, and programs on the host are given these words: nothing else is taken from it."""

EXPIRY_MARGIN = 60.0
"""Seconds after its deadline at which an experiment's targets undo by themselves: no sooner than the runner could."""


def make_plan(
    cluster: Cluster,
    experiment: Experiment,
    *,
    run_id: str,
    cluster_uid: str,
    target_kind: TargetKind,
    namespace: str,
    workload: str = "",
    policy: Policy,
    node: str = "",
) -> Plan:
    """The plan of one experiment. ``namespace`` and ``workload`` are the plan's. ``node`` is the one that the user named.

    Raises :class:`NotApplicable` when the experiment has no object on this cluster, :class:`PlanRefused` when what it has may not be
    touched now (unhealthy, no other healthy GPU node, too few free devices), :class:`TargetUnclear` when the cluster could not be read.
    """
    extension = experiment.extension
    if target_kind not in extension.fidelity:
        kinds = ", ".join(extension.fidelity)
        raise selectors.NotApplicable("TargetKind", f"{extension.id} exists on {kinds} targets only, and this one is {target_kind}")
    try:
        view = View.of(cluster)
        found = find_components(view, standing_of(view, policy.tenants), policy.chaos.components)
        if doubt := found.doubtful(_relied_on(experiment)):
            raise selectors.TargetUnclear("ComponentUnclear", doubt)
        if reason := found.missing(extension.needs + (extension.live_needs if target_kind is TargetKind.LIVE else ())):
            raise selectors.NotApplicable("ComponentAbsent", reason)
        if "taint_device" in experiment.functions and not cluster.announced(TAINT_RULES):
            raise selectors.NotApplicable("NotServed", "the API server serves no DeviceTaintRules")
        wanted = _wanted(extension.target)
        planning = _planning_view(view, found, plan_facts(view, found, policy), wanted, node)
        planning.cordoned = needs_cordoned(extension.level, target_kind, cordons=extension.cordons)
        choice = selectors.choose(planning)
        untouched = _untouched(planning, choice)
    except NoData as error:
        raise selectors.TargetUnclear("NotReadable", str(error)) from error
    if not choice.targets:
        raise selectors.PlanRefused("NoTarget", f"{extension.id} chose nothing, and an experiment without a target is an error")
    seconds = {**extension.durations(target_kind), SLOW_START: policy.probes.slow_start_seconds}
    expires = datetime.now(UTC) + timedelta(seconds=seconds["deadline"] + EXPIRY_MARGIN)
    return Plan(
        experiment=extension.id,
        run_id=run_id,
        cluster_uid=cluster_uid,
        server=cluster.shown_server,
        target_kind=target_kind,
        namespace=namespace,
        workload=workload,
        targets=choice.targets,
        node_uids={name_of(node): uid_of(node) for node in view.select("nodes") if name_of(node) in choice.nodes},
        untouched=untouched,
        expires_at=expires.isoformat(timespec="seconds"),
        facts=msgspec.to_builtins(_narrowed(planning, choice)),
        seconds=seconds,
        actions=tuple(_activities(experiment.document)),
        undo=extension.undo,
        eligible=choice.eligible,
    )


def _relied_on(experiment: Experiment) -> list[str]:
    """Components that an experiment stands on: those it needs, those its undo restarts, and the one that names devices."""
    extension = experiment.extension
    names = [*extension.needs, *extension.live_needs]
    if "agent.restarted" in extension.undo:
        names += DETECTORS
    if "gpu" in (extension.target.get("select"), (extension.target.get("also") or {}).get("select")):
        names.append("exporter")
    return names


def plan_facts(view: View, components: Components, policy: Policy) -> PlanFacts:
    """What the cluster offers to experiments. Raises :class:`NoData`."""
    probes = policy.probes
    return PlanFacts(
        components=components.found,
        resources=policy.accelerators.resources,
        no_devices=policy.accelerators.no_devices,
        fences=policy.fence.taint_keys,
        devices=devices_by_node(view, components),
        image=policy.chaos.canary_image or probes.image,
        injector_image=policy.chaos.injector_image,
        user=probes.run_as_user,
        tolerations=probes.tolerations,
        pull_secrets=tuple(probes.pull_secrets),
        priority_class=probes.priority_class,
    )


def devices_by_node(view: View, components: Components) -> dict[str, tuple[Device, ...]]:
    """GPUs by node, as each node's exporter names them. A node whose exporter does not answer has none."""
    exporter = components.get("exporter")
    found: dict[str, tuple[Device, ...]] = {}
    for pod in pods_of(view, exporter) if exporter else ():
        if not is_ready(pod):
            continue
        try:
            samples = samples_of(view, pod)
        except (NoData, Unreadable):
            continue
        known: dict[str, Device] = {}
        for sample in samples:
            uuid, index = sample.labels.get("UUID", ""), sample.labels.get("gpu", "")
            pci = sample.labels.get("pci_bus_id", "")
            if _UUID.fullmatch(uuid) and index.isascii() and index.isdigit() and len(index) < 4:
                known[uuid] = Device(uuid=uuid, index=int(index), pci=pci if _PCI.fullmatch(pci) else "")
        if known:
            found[node_of(pod)] = tuple(sorted(known.values(), key=lambda device: device.index))
    return found


def _wanted(target: Json) -> selectors.TargetQuery:
    try:
        return typed.convert(target, selectors.TargetQuery)
    except msgspec.ValidationError as error:
        raise selectors.PlanRefused("BadTarget", f"target: {error}") from error


def _planning_view(view: View, found: Components, known: PlanFacts, wanted: selectors.TargetQuery, node: str) -> selectors.PlanningView:
    """The cluster as the experiment sees it: one on a DRA driver counts devices that are claimed, every other those of plugins."""
    if wanted.component not in (DRA_PLUGIN, DOMAIN_DAEMON):
        return selectors.PlanningView(view=view, components=found, facts=known, wanted=wanted, named=node)
    known = msgspec.structs.replace(known, device_class=DEVICE_CLASS)
    return selectors.ClaimPlanningView(view=view, components=found, facts=known, wanted=wanted, named=node)


def _untouched(planning: selectors.PlanningView, choice: selectors.Choice) -> str:
    """A healthy GPU node that stays as it is. Raises :class:`PlanRefused` when there is none."""
    spare = [name_of(node) for node in planning.healthy() if name_of(node) not in choice.nodes]
    if not spare:
        raise selectors.PlanRefused("NoSpareNode", "no healthy GPU node would be left untouched, and one must be")
    return spare[-1]  # the fullest: canaries that have to move find room on the others


def _narrowed(planning: selectors.PlanningView, choice: selectors.Choice) -> PlanFacts:
    """The facts that this plan needs: devices of its nodes, free devices of all healthy ones, tolerations of their taints."""
    healthy = planning.healthy()
    nodes = [node for node in planning.gpu_nodes() if name_of(node) in choice.nodes] or healthy
    resource = next(
        iter(sorted(planning.devices(nodes[0], "allocatable"), key=lambda name: (name != "nvidia.com/gpu", name))), "nvidia.com/gpu"
    )
    taints = [taint for node in healthy for taint in tolerable(planning.work(node), planning.facts.is_fence)]
    tolerations = {f"{taint.key}:{taint.effect}": {"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints}
    named = [one for one in planning.facts.tolerations if one.get("key") and not is_temporary(Taint(key=str(one["key"])))]
    known = planning.facts.components
    return msgspec.structs.replace(
        planning.facts,
        components={name: on_node(planning.view, found, choice.nodes[0]) for name, found in known.items()} if choice.nodes else known,
        resource=resource,
        free={name_of(node): planning.free(node) for node in healthy if not selectors.is_shared(node) and not selectors.is_mig(node)},
        devices={name: known for name, known in planning.facts.devices.items() if name in choice.nodes or not choice.nodes},
        tolerations=(*tolerations.values(), *named),
    )


def _activities(document: dict[str, Any]) -> list[str]:
    """What the method will do, a line each."""
    lines = []
    for activity in document.get("method", ()):
        arguments = activity.get("provider", {}).get("arguments") or {}
        shown = ", ".join(_in_words(key, value) for key, value in arguments.items())
        lines.append(f"{activity.get('name')}" + (f" ({shown})" if shown else ""))
    return lines


def _in_words(name: str, value: Any) -> str:
    """An argument of an activity for people: ``until gpus.out equals 1``, ``within recovery``, ``nvidia.com/mig.config=all-1g.10gb``."""
    if isinstance(value, dict) and value.keys() & {"signal", "all", "any", "not"}:
        return f"until {words_of(parse_condition(value))}"
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain_value(inner)}" for key, inner in value.items())
    return f"{name} {plain_value(value)}"
