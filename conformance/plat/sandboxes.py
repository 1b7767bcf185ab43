"""PLAT-03: pods of a sandbox run under another kernel than their node's, and tenants who must have one name it.

A kernel is told by its boot id and its release. Kata boots a guest for each pod, and gVisor makes up a boot id for each sandbox.
"""

from collections.abc import Collection, Iterator

from conformance.probes.node_sampling import batches, not_reached
from conformance.probes.running import ProbeResult, pinned_pod, run_pods
from fixtures.kubernetes.models import Json, Node, Pod
from fixtures.model.cluster import Scope
from fixtures.model.platform.runtime_classes import Sandbox, sandboxes, unknown_classes
from fixtures.probes.workspace import Workspace
from fixtures.text.globs import matches
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

_BOOT, _RELEASE = "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease"
SCRIPT = f'echo "boot $(cat {_BOOT})"; echo "release $(cat {_RELEASE})"'


def probe_sandboxes(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """Findings of tenants who must be sandboxed, then of each sandbox class. Raises :class:`NotApplicable` where neither is there."""
    classes = sandboxes(scope)
    tenants = list(check_tenants(scope, [one.name for one in classes], unknown_classes(scope)))
    if not classes and not tenants:
        raise NotApplicable("NoSandbox", "no RuntimeClass has the handler of a sandbox, and no tenant must have one")
    yield from tenants
    yield from (_unasked(one) for one in classes if not one.nodes)
    pairs = [(one, node) for one in classes for node in (one.nodes if scope.policy.probes.every_node else one.nodes[:1])]
    asked = 0
    for batch in batches(scope, workspace, pairs, 2):
        asked += len(batch)
        pods = [pod for number, (one, node) in batch for pod in _pods(scope, node, f"plat-03-{number}", one.name)]
        ran = run_pods(workspace, pods, scope.policy.probes.start_seconds)
        for number, (one, node) in batch:
            inside, outside = ran[f"plat-03-{number}-inside"], ran[f"plat-03-{number}-outside"]
            yield judge_kernels(_about(one), node.name, inside, outside, used=one.used)
    yield from (not_reached(scope, node) for _, node in pairs[asked:])


def check_tenants(scope: Scope, classes: list[str], unknown: Collection[str]) -> Iterator[Finding]:
    """One finding for each tenant of policy ``tenants.sandboxed`` that has pods. Of ``unknown`` classes nobody knows what they are."""
    pods: dict[str, list[Pod]] = {}
    for pod in scope.snapshot.pods:
        if matches(pod.namespace, scope.policy.tenants.sandboxed) and scope.is_tenant(pod.namespace) and not pod.finished:
            pods.setdefault(pod.namespace, []).extend([] if pod.runtime_class in classes else [pod])
    for namespace, others in sorted(pods.items()):
        outside = [pod.name for pod in others if pod.runtime_class not in unknown]
        about = About(Subject("Namespace", namespace), "pod.spec.runtimeClassName", f"pods in {' or '.join(classes) or 'a sandbox'}")
        if outside:
            message = f"{listed(outside, 3)} must run in a sandbox and shares the kernel of its node with everybody there"
            yield about.bad(message, cause="TenantNotSandboxed", observed=f"{len(outside)} pods without a sandbox")
        elif others:
            named = listed(sorted({pod.runtime_class for pod in others}), 3)
            yield about.undecided(
                f"whether the RuntimeClass {named} of {listed([pod.name for pod in others], 3)} is a sandbox is not known"
            )
        else:
            yield about.ok("all its pods name a sandbox")


def _about(one: Sandbox) -> About:
    return About(Subject("RuntimeClass", one.name), f"{_BOOT}, {_RELEASE}", "another kernel than the node's")


def _unasked(one: Sandbox) -> Finding:
    """A class that no node can be asked about. Without a runtime that has its handler no pod of it gets past ContainerCreating."""
    reason = f"no node that takes pods has its handler {one.handler}"
    if one.used and not one.others:
        return _about(one).bad(f"{reason}, and pods name it", cause="SandboxNotStarted", observed="no node with its handler")
    return _about(one).not_judged(reason)


def _pods(scope: Scope, node: Node, name: str, runtime_class: str) -> list[Json]:
    """A pod in the sandbox, and the same one outside of it: the positive control."""
    image = scope.policy.probes.cpu_image
    inside = pinned_pod(scope, node, f"{name}-inside", SCRIPT, image=image, runtime_class=runtime_class)
    return [inside, pinned_pod(scope, node, f"{name}-outside", SCRIPT, image=image)]


def judge_kernels(about: About, node: str, inside: ProbeResult, outside: ProbeResult, *, used: bool) -> Finding:
    """What two pods on one node printed. ``used``: pods name the class; of those for machines of another kind nobody expects to start."""
    if outside.trouble:
        return about.undecided(f"the pod without a sandbox did not run on {node}: {outside.trouble}", cause="PositiveControlFailed")
    if inside.trouble:
        message = f"a pod in the sandbox does not run on {node}, where the same one without it does: {inside.trouble}"
        if not used:
            return about.not_judged(f"no pod names it; {message}")
        return about.bad(message, cause="SandboxNotStarted", observed="it does not run")
    own, host = _printed(inside), _printed(outside)
    if not host.get("boot") or not own.get("boot", own.get("release")):
        return about.undecided(f"the pods on {node} did not print their kernels", cause="ProbeDidNotRun")
    if own.get("boot") == host["boot"] or (not own.get("boot") and own["release"] == host.get("release")):
        message = f"a pod in the sandbox runs under the kernel of {node}: who breaks out of its container has the node"
        return about.bad(message, cause="SandboxSharesKernel", observed=f"boot id {host['boot']} inside and outside")
    if own.get("release") in (None, host.get("release")):
        shown = f"the same release {host.get('release')}" if own.get("release") else "no release"
        return about.undecided(f"on {node} another boot id and {shown}: some runtimes make the former up")
    return about.ok(f"on {node}: {own.get('release')} inside, {host.get('release')} outside, other boot ids")


def _printed(ran: ProbeResult) -> dict[str, str]:
    words = (line.split(maxsplit=1) for line in ran.logs.get("probe", "").splitlines())
    return {word[0]: word[1] for word in words if len(word) == 2 and word[0] in ("boot", "release")}
