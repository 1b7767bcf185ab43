"""OPS-04, 05 and 11: pinned images, one driver a node, and versions without a published escape or loss of data."""

from collections.abc import Iterable, Iterator

from conformance.causes import cause_of
from conformance.common_findings import unless_settling
from fixtures.kubernetes.models import PodSpec
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.pod_templates import templates_in
from fixtures.model.platform.agents import Agent, agents, roll_out_under_way
from fixtures.model.platform.containers import image_versions, unpinned
from fixtures.model.platform.versions import DriverSource, Installed, Version, driver_sources, installed, version_of
from fixtures.tables.rows import FLOORS
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, undecided
from fixtures.verdict.subjects import NotApplicable, Subject

_DRIVERS_SOURCE = "node labels, pods of driver DaemonSets"


def check_driver_sources(scope: Scope) -> Iterator[Finding]:
    """One finding per accelerator node whose driver comes from a known source."""
    found = list(driver_sources(scope))
    if not found:
        raise NotApplicable("NoDriverSource", "no node has a driver container, and no label says that a machine brings its driver")
    yield from unless_settling(scope, map(_judge_driver, found))


def _judge_driver(one: DriverSource) -> Finding:
    about = About(subject(one.node), _DRIVERS_SOURCE, "a driver of the machine, or a driver container, and never both")
    name = one.pod.name if one.pod is not None else ""
    if one.host and name:
        message = f"its label says that the machine brings a driver ({one.host}), and {name} installs another one over it"
        return about.bad(message, cause="TwoDrivers", observed=f"{one.host}, pod {name}")
    # a driver that was built for one kernel has the branch alone in its tag
    if one.ready and one.loaded and one.contained[:1].isdigit() and not f"{one.loaded}.".startswith(f"{one.contained}."):
        message = (
            f"{name} installs {one.contained[:40]}, and the driver that is loaded is {one.loaded[:40]}: the machine brings one of its own"
        )
        return about.bad(message, cause="TwoDrivers", observed=f"loaded {one.loaded[:40]}, container {one.contained[:40]}")
    return about.ok(f"a driver of the machine ({one.host})" if one.host else f"driver container {name}")


def check_floors(scope: Scope) -> Iterator[Finding]:
    """One finding per part and place: a workload, or a node."""
    own = scope.policy.operators.version_floors
    judged = [one for one in installed(scope) if own.get(one.part) or any(row.part == one.part for row in FLOORS.rows)]
    if not judged:
        raise NotApplicable("NoKnownPart", "no part is installed of which a floor is known")
    for one in judged:
        yield _judge_floors(one, own.get(one.part, ""))


def _judge_floors(one: Installed, own: str) -> Finding:
    """``own`` is the floor of the policy, which stands beside the published faults."""
    source = f"tags of images, status.nodeInfo, tables of {FLOORS.table.date}"
    place = Subject(one.place.kind, f"{one.place.name} {one.part}", one.place.namespace)
    known = [row for row in FLOORS.rows if row.part == one.part]
    floors = [*(row.fixed[-1] for row in known), *([own] if own else [])]
    expected = f"{one.part} {' and '.join(floors)} or newer"
    about = About(place, source, expected, observed=f"{one.part} {one.text or 'of no version'}")
    if one.version is None:
        return about.undecided(f"its version is not known: the tag is {one.text or 'empty'}")
    for row in known:
        if _below(one.version, [version for text in row.fixed if (version := version_of(text))]):
            message = f"{one.part} {one.text} has a known fault ({row.fault}; fixed in {', '.join(row.fixed)})"
            return about.bad(message, cause="KnownFault")
    floor = version_of(own)
    if floor and one.version < floor:
        return about.bad(f"{one.part} {one.text} is below the policy's operators.versionFloors: {own}", cause="BelowFloor")
    return about.ok()


def _below(version: Version, fixed: list[Version]) -> bool:
    """Whether a version is of a branch without a fix, or below its branch's: ``1.5.9`` and ``1.3.0`` for fixes in 1.5.10 and 1.6.1."""
    branch = next((one for one in fixed if one[:-1] == version[: len(one) - 1]), max(fixed))
    return version < branch


_ARCH = "kubernetes.io/arch"
_PINNED = "a digest, or a tag that is not forbidden; one digest on all nodes"


def check_pinned(scope: Scope) -> Iterator[Finding]:
    """One finding per agent DaemonSet (template and live pods) and per Deployment in their namespaces."""
    found = agents(scope)
    for agent in found:
        yield _judge_images(scope, agent)
    # kube-system and default are shared with everybody, and a namespace that is not the platform's is full of other things
    homes = {agent.daemonset.namespace for agent in found if scope.platform.of(agent.daemonset.namespace).components} - {
        "kube-system",
        "default",
    }
    deployments = scope.snapshot.listing("apps/deployments")
    if deployments.trouble:
        yield undecided(
            Subject("resource", "apps/deployments"),
            cause=cause_of(deployments.trouble),
            message=f"could not be listed: {deployments.message}",
        )
    for item in deployments.objects:
        if str((item.get("metadata") or {}).get("namespace")) in homes:
            for template in templates_in("apps/deployments", item):
                yield _controller(scope, template.subject, template.spec, template.trouble)


def _controller(scope: Scope, place: Subject, spec: PodSpec, trouble: str) -> Finding:
    about = About(place, "spec.template.spec.containers[*].image", _PINNED)
    if trouble:
        return about.undecided(trouble)
    images = [container.image for container in spec.every_container()]
    return _moving(scope, about, images, "a restart may bring another version") or about.ok(listed(sorted(set(images))))


def _moving(scope: Scope, about: About, images: Iterable[str], risk: str) -> Finding | None:
    """The finding about images of which one is not pinned; None where all are."""
    every, forbidden = sorted(set(images)), scope.policy.operators.image_tags_forbidden
    problems = [text for image in every if (text := unpinned(image, forbidden))]
    return about.bad(f"{listed(problems)}: {risk}", cause="ImageNotPinned", observed=listed(every)) if problems else None


def _judge_images(scope: Scope, agent: Agent) -> Finding:
    about = About(subject(agent.daemonset), "template and pod images, containerStatuses[*].imageID", _PINNED)
    if moving := _moving(scope, about, agent.images, "nodes that join or restart may run another version than the rest"):
        return moving
    different = _different(scope, agent)
    nodes = [*agent.accelerator_nodes, *agent.other_nodes]
    if different and (doing := roll_out_under_way(agent, nodes, scope.policy, scope.snapshot.taken_at)):
        return about.undecided(f"{different}; {doing}", cause=CHANGE_UNDER_WAY)
    if different:
        return about.bad(f"{different}: nodes of one pool run different software", cause="ImagesDiffer", observed=different)
    return about.ok(f"{listed(sorted(set(agent.images)))} on {len(agent.pods)} nodes")


def _different(scope: Scope, agent: Agent) -> str:
    """A container whose image differs between nodes of one architecture, by reference or by digest, or empty."""
    seen: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for node_name, pod in sorted(agent.pods.items()):
        node = scope.snapshot.node_by_name.get(node_name)
        arch = node.metadata.label.get(_ARCH, "") if node is not None else ""
        for kind, container, value in image_versions(pod):
            seen.setdefault((arch, kind, container), {}).setdefault(value, []).append(node_name)
    for (_, kind, container), values in sorted(seen.items()):
        if len(values) > 1:
            ranked = sorted(values.items(), key=lambda entry: (-len(entry[1]), entry[0]))
            parts = [f"{value} on {listed(nodes, 3)}" for value, nodes in ranked[:3]]
            return f"container {container} has {len(values)} {kind}s: {'; '.join(parts)}"
    return ""
