"""OPS-04: images of the stack are pinned, and the same on every node."""

from collections.abc import Iterable, Iterator

from conformance.causes import cause_of
from fixtures.kubernetes.models import PodSpec
from fixtures.model.cluster import Scope, subject
from fixtures.model.demand.pod_templates import templates_in
from fixtures.model.platform.agents import Agent, agents, roll_out_under_way
from fixtures.model.platform.containers import image_versions, unpinned
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, undecided
from fixtures.verdict.subjects import Subject

_ARCH = "kubernetes.io/arch"
_PINNED = "a digest, or a tag that is not forbidden; one digest on all nodes"


def check_pinned(scope: Scope) -> Iterator[Finding]:
    """One finding per agent DaemonSet (template and live pods) and per Deployment in their namespaces."""
    found = agents(scope)
    for agent in found:
        yield _judge(scope, agent)
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


def _judge(scope: Scope, agent: Agent) -> Finding:
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
