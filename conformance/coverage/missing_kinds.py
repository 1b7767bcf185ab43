"""Kinds that a requirement reads and a saved snapshot lacks, and which verdict the requirement may still give.

No requirement may pass on a missing kind, nor say that the cluster has none of it. Why: docs/decisions/missing-kinds-of-a-snapshot.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from conformance.requirement import Requirement
from conformance.scope.scope import Scope
from fixtures.cluster.kinds import KINDS
from fixtures.snapshot.state import Snapshot
from fixtures.text.sentences import listed
from fixtures.verdict.coverage import MAX_NAMED, is_judged
from fixtures.verdict.findings import ADVISED, Judgement, NotApplicable
from fixtures.verdict.record import Access, Result, SubjectResult, Verdict

CODE = "NotInSnapshot"
_TOO_LARGE = "TooLarge"
_DYNAMIC = "resource.k8s.io/"


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Resource keys that a requirement reads and a snapshot lacks.

    ``needed``: it says nothing without them, or nothing good. ``spare``: kinds of dynamic allocation, and nothing in the snapshot
    uses it. ``proofs``: they would prove namespaces to be the platform's, and without them rules for tenants hold in more of them.
    """

    needed: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()


def gaps(requirement: Requirement, scope: Scope) -> Gaps:
    """What the snapshot lacks of a requirement's kinds. Nothing where a cluster was read."""
    lacking = [key for key in (*requirement.reads, *requirement.optional_reads) if scope.snapshot.lacks(key)]
    proofs = tuple(key for key in lacking if key in requirement.tenant_proofs)
    dynamic = tuple(key for key in lacking if key.startswith(_DYNAMIC))
    spare = () if dynamic and _may_allocate_dynamically(scope) else dynamic
    return Gaps(needed=tuple(key for key in lacking if key not in (*spare, *proofs)), spare=spare, proofs=proofs)


def _may_allocate_dynamically(scope: Scope) -> bool:
    """Whether anything says that devices are claimed: an object of that API group, a pod with a claim, a node without device resources."""
    snapshot = scope.snapshot
    if any(snapshot.listing(key).items for key in KINDS if key.startswith(_DYNAMIC)):
        return True
    if any(pod.spec.resource_claims for pod in snapshot.listing("pods").items):
        return True
    nodes = () if snapshot.lacks("nodes") or snapshot.listing("nodes").trouble else scope.accelerator_nodes
    return any(not scope.device_capacity(node) and not scope.vm_devices(node) for node in nodes)


def check_saved(requirement: Requirement, scope: Scope) -> None:
    """Raise :class:`NotApplicable` when a saved snapshot lacks kinds without which a requirement says nothing."""
    found = gaps(requirement, scope)
    if set(found.needed) & set(requirement.reads) or (found.needed and not requirement.bad_stands):
        raise NotApplicable(CODE, _sentence(found.needed))


def amend(judgement: Judgement, requirement: Requirement, scope: Scope, *, required: bool) -> None:
    """Let a judgement claim no more than what was read: what is bad or undecided stays, the rest is not in the snapshot."""
    if requirement.access is not Access.READ:
        return  # no snapshot, however full, can answer it
    found = gaps(requirement, scope)
    bad = [subject for subject in judgement.subjects if subject.verdict is Verdict.FAILED]
    nothing = judgement.verdict is Verdict.NOT_APPLICABLE or (judgement.verdict is Verdict.FAILED and not bad)
    good = judgement.verdict in (Verdict.PASSED, Verdict.WAIVED) or judgement.reason_code == ADVISED
    if (good and found.needed) or (nothing and (found.needed or found.spare)):
        judgement.verdict = Verdict.FAILED if required else Verdict.NOT_APPLICABLE
        judgement.reason_code, judgement.message = CODE, _sentence((*found.needed, *found.spare))
    elif found.proofs and bad and _may_be_the_platforms(bad, scope):
        judgement.verdict, judgement.reason_code = Verdict.INCONCLUSIVE, CODE
        judgement.message += f"; {_sentence(found.proofs)}, which may prove that the namespace is the platform's"
    elif good and found.spare:
        judgement.message += f"; {_sentence(found.spare)}"


def without_hints(requirement: Requirement, snapshot: Snapshot) -> Iterator[str]:
    """A clause for each kind that a requirement would have read beside the others and that was not read."""
    for key in requirement.hints:
        listing = snapshot.listing(key)
        if listing.trouble:
            yield f"{key} could not be listed: {listing.message}"
        elif snapshot.lacks(key):
            yield _sentence([key])


def unread_hints(requirements: Mapping[str, Requirement], results: Iterable[Result], snapshot: Snapshot) -> Iterator[str]:
    """A sentence for each kind that was to be listed, could not be, and beside which requirements got a verdict all the same.

    What it would have shown may be bad. One that is too large to be read is a bound of the suite's own, and no shortfall.
    """
    judged: dict[str, list[str]] = {}
    for result in results:
        for key in requirements[result.id].hints if result.id in requirements and is_judged(result) else ():
            if snapshot.listing(key).trouble not in ("", _TOO_LARGE):
                judged.setdefault(key, []).append(result.id)
    for key, ids in judged.items():
        were = "was" if len(ids) == 1 else "were"
        yield f"{listed(ids, MAX_NAMED)} {were} judged without {key}, which could not be listed: {snapshot.listing(key).message}"


def _may_be_the_platforms(bad: Iterable[SubjectResult], scope: Scope) -> bool:
    """Whether everything bad is in namespaces whose names sound like the platform's, so that only their proof is missing."""
    return all(scope.platform.advice(subject.name if subject.kind == "Namespace" else subject.namespace) for subject in bad)


def _sentence(keys: Iterable[str]) -> str:
    return f"the snapshot holds no {', '.join(dict.fromkeys(keys))}"


def notes(requirements: Iterable[Requirement], snapshot: Snapshot) -> Iterator[str]:
    """A sentence that lists every kind a saved snapshot lacks, and how to take one that lacks none."""
    readers = [requirement for requirement in requirements if requirement.access is Access.READ]
    lacking = [key for key in KINDS if snapshot.lacks(key) and any(key in one.lists for one in readers)]
    if lacking:
        sentence = f"{_sentence(lacking)} ({len(lacking)} kinds that requirements read)"
        yield f"{sentence}; gpu-conformance list --snapshot-command prints the command that saves all of them"


def doubted_time(snapshot: Snapshot) -> Iterator[str]:
    """A sentence when a saved snapshot was not taken when it says, so that ages are known less well, or when clocks differ."""
    if snapshot.time_doubt and not snapshot.offline:
        yield snapshot.time_doubt
    elif snapshot.time_doubt:
        until = datetime.fromtimestamp(snapshot.taken_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        yield f"{snapshot.time_doubt}: the snapshot was judged as one of {until}"


def one_namespace(snapshot: Snapshot) -> Iterator[str]:
    """A sentence when a saved snapshot seems to be of one namespace: ``kubectl get pods`` without ``-A`` looks no further.

    Every cluster runs pods in more than one, so all of them in one is doubted where the snapshot itself names several.
    """
    namespaces, pods = snapshot.listing("namespaces").items, snapshot.listing("pods").items
    seen = {pod.namespace for pod in pods}
    if snapshot.offline and len(seen) == 1 and len(namespaces) > 2 and "kube-system" in {item.name for item in namespaces} - seen:
        sentence = f"all {len(pods)} pods saved are of namespace {seen.pop()}, and the cluster has {len(namespaces)} namespaces"
        yield f"{sentence}: the others' were not read (kubectl get -A)"


def unsaved_namespaces(snapshot: Snapshot) -> Iterator[str]:
    """A sentence when saved pods are in namespaces that were not saved: what is asked of each namespace, nobody asked of these."""
    namespaces = snapshot.listing("namespaces")
    unknown = sorted({pod.namespace for pod in snapshot.listing("pods").items} - {item.name for item in namespaces.items})
    if snapshot.offline and namespaces.collected and not namespaces.trouble and unknown:
        yield f"pods are in {listed(unknown)}, which the snapshot does not hold: these namespaces were not judged"
