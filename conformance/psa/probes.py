"""The probes of PSA: what the API refuses (PSA-03), and that a compliant pod still gets its device (PSA-04)."""

from collections.abc import Iterator

import msgspec

from conformance.probes.computing import LIST_SCRIPT, SOURCE, computing, read_holders, start_holders, visible_to
from conformance.probes.node_sampling import PlaceFinding, choose_places, in_batches, per_node
from conformance.probes.running import ProbeResult, pinned_pod
from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.podsecurity import Level, LevelVersion, evaluate, parse_rejection, policy_of
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import Place, listable_places, usable_places, why_unlistable
from fixtures.model.platform.kubernetes_version import server_minor
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject


class Dryrun(msgspec.Struct, frozen=True, kw_only=True):
    """What one namespace answered. ``predicted``: reasons the evaluator gives for the root pod at the namespace's level."""

    namespace: str
    enforced: LevelVersion
    predicted: tuple[str, ...]
    refused: Answer
    control: Answer
    own: bool = True  # the run's own namespace, where nothing but Pod Security can refuse the control


# -- PSA-03 --------------------------------------------------------------------------------------------


def probe_refusal(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """PSA-03: dry-run of a root CUDA pod and of the compliant one, in the run's own namespace and in every enforcing tenant's."""
    places = usable_places(scope)
    if not places:
        raise NotApplicable("NoUsableDevice", "no Ready, schedulable node offers a device, so there is no device pod to ask about")
    compliant = pinned_pod(scope, places[0].node, "psa-03-compliant", LIST_SCRIPT, resources={places[0].resource: 1})
    root = root_pod(compliant)
    for namespace, enforced in _enforcing(scope, workspace):
        violations = evaluate(root["spec"], {}, enforced.level, enforced.version, server_minor=server_minor(scope))
        yield judge_refusal(
            Dryrun(
                namespace=namespace,
                enforced=enforced,
                predicted=tuple(violation.reason for violation in violations),
                refused=workspace.ask("pods", root, namespace),
                control=workspace.ask("pods", compliant, namespace),
                own=namespace == workspace.namespace(),
            )
        )


def _enforcing(scope: Scope, workspace: Workspace) -> Iterator[tuple[str, LevelVersion]]:
    yield workspace.namespace(), LevelVersion(Level.RESTRICTED)
    for namespace in scope.snapshot.namespaces:
        if not scope.is_tenant(namespace.name) or namespace.metadata.deletion_timestamp:
            continue
        enforced = policy_of(namespace.metadata.label)[0].enforce
        if enforced.level is not Level.PRIVILEGED:
            yield namespace.name, enforced


def root_pod(compliant: Json) -> Json:
    """The same pod as CUDA samples are usually written: root, privileged, with the host's IPC and no seccomp profile."""
    spec = dict(compliant["spec"])
    spec["securityContext"] = {"runAsUser": 0}
    spec["hostIPC"] = True
    spec["containers"] = [
        {**container, "securityContext": {"privileged": True, "capabilities": {"add": ["SYS_ADMIN", "IPC_LOCK"]}}}
        for container in spec["containers"]
    ]
    return {**compliant, "metadata": {**compliant["metadata"], "name": "psa-03-root"}, "spec": spec}


def judge_refusal(seen: Dryrun) -> Finding:
    """PSA-03: a refusal counts only as Pod Security's own, for exactly the predicted reasons, beside an accepted control."""
    refused, predicted = seen.refused, set(seen.predicted)
    observed = f"{refused.status} {refused.message}"[:600] if not refused.ok else f"{refused.status} accepted"
    expected = f'403 violates PodSecurity "{seen.enforced}": {", ".join(seen.predicted)}'
    about = About(Subject("Namespace", seen.namespace), "server-side dry-run of two pods", expected, observed)
    if refused.ok:
        what = "and the control too" if seen.control.ok else f"although the control got {seen.control.status}"
        message = f"the root CUDA pod is accepted {what}, so the label {seen.enforced} enforces nothing here"
        return about.bad(message, cause="PodSecurityNotEnforced")
    rejection = parse_rejection(refused.message)
    if refused.status != 403 or rejection is None or not rejection.denied:
        return about.undecided(f"the root pod was refused, but not by Pod Security: {observed}", cause="RefusedByOthers")
    if set(rejection.reasons) != predicted or rejection.level is not seen.enforced.level:
        parts = (("missing", predicted - set(rejection.reasons)), ("not predicted", set(rejection.reasons) - predicted))
        detail = "; ".join(f"{word} {', '.join(sorted(reasons))}" for word, reasons in parts if reasons) or f"level {rejection.level}"
        return about.bad(f"the refusal is not the Pod Security Standards' own ({detail})", cause="PodSecurityAltered")
    return _judge_control(about, seen)


def _judge_control(about: About, seen: Dryrun) -> Finding:
    control = seen.control
    answer = f"{control.status} {control.message}"
    if not control.ok and control.status == 403 and parse_rejection(control.message):
        message = f"the compliant pod is refused as well, so device pods cannot run here: {control.message}"[:600]
        return about.bad(message, cause="CompliantPodRefused", observed=answer[:600], expected="the compliant pod is accepted")
    if not control.ok:
        message = f"the compliant pod was refused for another reason: {answer}"[:600]
        if seen.own:
            return about.undecided(message, cause="PositiveControlFailed")
        return msgspec.structs.replace(about.ok(), message=message)  # a tenant's quota may be used up: not Pod Security's
    if warned := next((text for text in control.warnings if "PodSecurity" in text), ""):
        message, expected = f"the compliant pod is accepted with a warning: {warned}"[:600], "no Warning header for the compliant pod"
        return about.bad(message, cause="CompliantPodRefused", observed=warned[:600], expected=expected)
    other = f" (other warnings: {'; '.join(control.warnings)})" if control.warnings else ""
    return about.ok(f"{about.observed}; control accepted without Pod Security warning{other}"[:800])


# -- PSA-04 --------------------------------------------------------------------------------------------


def probe_nonroot(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """PSA-04: the compliant pod runs as a user and lists its device."""
    user = scope.policy.probes.run_as_user

    def ask(batch: list[tuple[int, Place]]) -> Iterator[PlaceFinding]:
        asked = {f"psa-04-{number}": place for number, place in batch}
        for name, ran in read_holders(scope, workspace, start_holders(scope, workspace, asked)).items():
            yield asked[name], judge_nonroot(ran, asked[name].resource, user, shared=asked[name].shared)

    places = choose_places(scope, listable_places(scope))
    yield from per_node(scope, in_batches(scope, workspace, places, 1, ask), why_unlistable)


def judge_nonroot(ran: ProbeResult, resource: str, user: int, *, shared: bool = False) -> Finding:
    """PSA-04: uid as asked and not 0, at least one device listed, and it computes."""
    sight = visible_to(ran)
    if isinstance(sight, str):
        return About(ran.subject, SOURCE).undecided(sight, cause="ProbeDidNotRun")
    observed = f"{sight.text} on node {ran.node}"
    about = About(ran.subject, SOURCE, f"uid {user} sees its {resource}", observed)
    if sight.uid in ("", "0"):
        message = f"it runs as uid {sight.uid or 'unknown'} although runAsUser {user} was asked, which proves nothing for non-root pods"
        return about.bad(message, cause="RunsAsAnotherUser")
    if not sight.uuids and sight.exit_code == "127" and sight.device_files:
        text = "the device is there and the image cannot start nvidia-smi (policy probes.image must be an image with glibc)"
        return about.undecided(f"{text}: {observed}", cause="ProbeDidNotRun")
    if not sight.uuids:
        return about.bad(f"a pod that satisfies restricted cannot use its {resource}: {sight.text}", cause="DeviceNeedsRoot")
    if sight.uid != str(user):
        return about.bad(f"the container runs as uid {sight.uid}, not as the uid {user} that was asked", cause="RunsAsAnotherUser")
    return computing(about.ok(), sight, shared=shared)
