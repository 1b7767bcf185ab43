"""What admission answers to a pod that a policy of the cluster has to refuse, and in whose words. All by server-side dry-run.

Facts: docs/facts/admission.md#refusals-of-policies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from fixtures.cluster.client import Answer
from fixtures.kubernetes.models import Json, Toleration
from fixtures.model.cluster import Scope
from fixtures.probes.pods import PodShape, probe_pod
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, Subject

_SOURCE = "answer to a server-side dry-run"
UNREACHABLE = "failed calling webhook"


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that has to be refused: its name in words, the pod, and the key of the policy that says so."""

    what: str
    body: Json
    key: str


def device_pod(scope: Scope, name: str, resources: Mapping[str, int], tolerations: Sequence[Toleration] = (), **more: str) -> Json:
    """A pod that satisfies ``restricted`` and asks for devices; it is never stored. ``more``: further fields of its shape."""
    probes = scope.policy.probes
    shape = PodShape(name=name, image=probes.cpu_image, script="true", run_as_user=probes.run_as_user)
    return probe_pod(msgspec.structs.replace(shape, resources=resources, tolerations=tolerations, **more))


def ask_refusals(workspace: Workspace, control: Json, refusals: Iterable[Refusal]) -> Iterator[Finding]:
    """One finding per refusal. Raises :class:`Inconclusive` where the control is refused, unless by a webhook without backend."""
    namespace = workspace.namespace()
    yield from judge_refusals(
        workspace.ask("pods", control, namespace), [(one, workspace.ask("pods", one.body, namespace)) for one in refusals]
    )


def judge_refusals(control: Answer, answers: Iterable[tuple[Refusal, Answer]]) -> Iterator[Finding]:
    """The same, by the API server's answers."""
    if not control.ok and UNREACHABLE in control.message:
        message = f"no pod can be created, allowed ones included: {control.message[:300]}"
        yield About(Subject("Request", "an allowed pod"), _SOURCE, "accepted").bad(
            message, cause="PolicyUnreachable", observed=f"{control.status}"
        )
        return
    if not control.ok:
        raise Inconclusive("PositiveControlFailed", f"an allowed pod was refused too: {control.status} {control.message[:300]}")
    for refusal, answer in answers:
        about = About(Subject("Request", refusal.what), _SOURCE, f"refused by a policy of the cluster ({refusal.key})")
        if answer.ok:
            message = (
                f"{refusal.key} says that it is refused, and it is accepted; a policy that selects namespaces may pass this run's over"
            )
            yield about.bad(message, cause="PolicyNotEnforced", observed=f"{answer.status} accepted")
        elif answer.denied_by_policy:
            yield about.ok(f"{answer.status}: {answer.message[:300]}")
        else:
            message = f"refused, and not in the words of a policy: {answer.status} {answer.reason}: {answer.message[:300]}"
            yield about.undecided(message, cause="RefusedForAnotherReason")
