"""Kinds that a requirement reads and a saved snapshot lacks, and which verdict the requirement may still give.

No requirement may pass on a missing kind, nor say that the cluster has none of it. Why: docs/decisions/missing-kinds-of-a-snapshot.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from conformance.requirement import Requirement
from fixtures.cluster.kinds import KINDS
from fixtures.kubernetes.untyped import mapping, mappings
from fixtures.model.cluster import Scope
from fixtures.model.nodes.accelerators import vm_devices
from fixtures.snapshot.state import Snapshot
from fixtures.text.sentences import listed
from fixtures.verdict.coverage import MAX_NAMED, is_judged
from fixtures.verdict.findings import WAIVABLE, Evidence, Finding, Judgement, Outcome, Waiving
from fixtures.verdict.record import Access, Cause, Coverage, Result, Verdict
from fixtures.verdict.subjects import REST, NotApplicable, Subject

CODE = "NotInSnapshot"
CAUSE = "KindNotInSnapshot"
_TOO_LARGE = "TooLarge"
_DYNAMIC = "resource.k8s.io/"
_NATIVE_GANGS = ("scheduling.k8s.io/workloads", "scheduling.k8s.io/podgroups")


class Gaps(msgspec.Struct, frozen=True, kw_only=True):
    """Resource keys that a requirement reads and a snapshot lacks.

    ``needed``: subjects may depend on them. ``added``: their objects would be further subjects, and the others do not depend on them.
    ``spare``: kinds of dynamic allocation and of native gangs, and nothing in the snapshot uses these. ``proofs``: they would prove
    namespaces to be the platform's, and without them rules for tenants hold in more of them.
    """

    needed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()


def gaps(requirement: Requirement, scope: Scope) -> Gaps:
    """What the snapshot lacks of a requirement's kinds. Nothing where a cluster was read, and where no snapshot can answer."""
    if requirement.access is not Access.READ:
        return Gaps()
    lacking = [key for key in (*requirement.reads, *requirement.optional_reads) if scope.snapshot.lacks(key)]
    proofs = tuple(key for key in lacking if key in requirement.tenant_proofs)
    dynamic = tuple(key for key in lacking if key.startswith(_DYNAMIC))
    spare = () if dynamic and _may_allocate_dynamically(scope) else dynamic
    if not _may_have_native_gangs(scope):
        spare += tuple(key for key in lacking if key in _NATIVE_GANGS)
    added = tuple(key for key in lacking if key in requirement.adds and key not in proofs)
    return Gaps(needed=tuple(key for key in lacking if key not in (*spare, *proofs, *added)), added=added, spare=spare, proofs=proofs)


def _may_allocate_dynamically(scope: Scope) -> bool:
    """Whether anything says that devices are claimed: an object of that API group, a pod with a claim, a node without device resources."""
    snapshot = scope.snapshot
    if any(snapshot.listing(key).items for key in KINDS if key.startswith(_DYNAMIC)):
        return True
    if any(pod.spec.resource_claims for pod in snapshot.listing("pods").items):
        return True
    nodes = () if snapshot.lacks("nodes") or snapshot.listing("nodes").trouble else scope.accelerator_nodes
    return any(not scope.device_capacity(node) and not vm_devices(scope, node) for node in nodes)


def _may_have_native_gangs(scope: Scope) -> bool:
    """Whether a pod or a claim names a group of Kubernetes' own gang scheduling, or pods were not saved."""
    pods, claims = scope.snapshot.listing("pods"), scope.snapshot.listing("resource.k8s.io/resourceclaims").objects
    consumers = (one for claim in claims for one in mappings(mapping(claim.get("status")).get("reservedFor")))
    named = any(pod.spec.scheduling_group or pod.spec.workload_ref for pod in pods.items)
    return named or not pods.collected or any(one.get("resource") != "pods" for one in consumers)


def check_saved(requirement: Requirement, scope: Scope) -> None:
    """Raise :class:`NotApplicable` when a saved snapshot lacks kinds without which a requirement says nothing."""
    missing = [key for key in requirement.reads if key in gaps(requirement, scope).needed]
    if missing:
        raise NotApplicable(CODE, _sentence(missing))


class SavedEvidence(Evidence):
    """Takes the findings of a requirement over a saved snapshot: a subject that depends on a missing kind is undecided."""

    def __init__(self, requirement: Requirement, scope: Scope, waivers: Waiving | None = None) -> None:
        super().__init__(waivers, scope.concerns if scope.chosen else None)
        self._scope = scope
        self._gaps = gaps(requirement, scope)
        excuses = requirement.excuses
        self._excuses = tuple(key for key in self._gaps.needed if excuses is None or key in excuses)
        self._undecided = 0
        self._otherwise = False

    @property
    def lacks_kinds_only(self) -> bool:
        """Whether subjects are undecided, and all of them for missing kinds."""
        return self._undecided > 0 and not self._otherwise

    def __call__(self, findings: Iterable[Finding] | Finding) -> None:
        """Add findings, as :class:`Evidence` does."""
        self.asked = True
        found = (findings,) if isinstance(findings, Finding) else findings
        super().__call__(map(self._limited, found))

    def _limited(self, finding: Finding) -> Finding:
        is_bad = finding.outcome in WAIVABLE
        keys = self._concerned(finding.subject, self._excuses if is_bad else self._gaps.needed) if finding.subject != REST else ()
        if keys:
            self._undecided += 1
            why = f"{_sentence(keys)}{', which may excuse it' if is_bad else ''}"
        elif is_bad and self._gaps.proofs and _may_be_the_platforms(finding.subject, self._scope):
            self._otherwise = True
            why = f"{_sentence(self._gaps.proofs)}, which may prove that the namespace is the platform's"
        else:
            self._otherwise = self._otherwise or finding.outcome is Outcome.UNDECIDED
            return finding
        text = finding.message or ", expected ".join(filter(None, (finding.observed, finding.expected)))
        message = "; ".join(filter(None, (text, why)))
        return msgspec.structs.replace(finding, outcome=Outcome.UNDECIDED, observed="", expected="", message=message, cause=CAUSE)

    def _concerned(self, subject: Subject, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the missing kinds that may change what is known of a subject."""
        if not any(key.startswith(_DYNAMIC) for key in keys) or _may_use_claims(subject, self._scope):
            return keys
        return tuple(key for key in keys if not key.startswith(_DYNAMIC))


def _may_use_claims(subject: Subject, scope: Scope) -> bool:
    """Whether a subject may have to do with devices of dynamic allocation. A node or a pod whose devices are a plugin's has not."""
    snapshot = scope.snapshot
    if snapshot.lacks("nodes") or snapshot.listing("nodes").trouble:
        return True
    if subject.kind == "Node":
        pods = () if snapshot.lacks("pods") or snapshot.listing("pods").trouble else snapshot.pods_by_node.get(subject.name.split()[0], ())
        return not _has_plugin(subject.name.split()[0], scope) or any(pod.spec.resource_claims for pod in pods)
    if subject.kind == "Pod":
        pod = next((one for one in snapshot.listing("pods").items if (one.namespace, one.name) == (subject.namespace, subject.name)), None)
        return pod is None or bool(pod.spec.resource_claims) or not _has_plugin(pod.spec.node_name, scope)
    return True


def _has_plugin(name: str, scope: Scope) -> bool:
    node = scope.snapshot.node_by_name.get(name)
    return node is not None and any(scope.device_capacity(node).values())


def amend(judgement: Judgement, evidence: SavedEvidence, requirement: Requirement, scope: Scope, *, required: bool) -> None:
    """Let a judgement claim no more than what was read: what is bad or undecided stays, the rest is not in the snapshot."""
    found = gaps(requirement, scope)
    lacking = (*found.needed, *found.added)
    missing = judgement.verdict is Verdict.INCONCLUSIVE and evidence.lacks_kinds_only
    bad = judgement.judged and judgement.verdict in (Verdict.FAILED, Verdict.WARNED)
    nothing = judgement.verdict is Verdict.NOT_APPLICABLE or (judgement.verdict is Verdict.FAILED and not bad)
    good = judgement.verdict in (Verdict.PASSED, Verdict.WAIVED)
    if missing or (good and lacking) or (nothing and (lacking or found.spare)):
        judgement.verdict = Verdict.INCONCLUSIVE if required else Verdict.NOT_APPLICABLE
        judgement.reason_code = CODE
        count = f"{judgement.judged} of {judgement.total} judged; " if judgement.total else ""
        judgement.message = count + _sentence(lacking or found.spare)
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


def _may_be_the_platforms(subject: Subject, scope: Scope) -> bool:
    """Whether a subject is in a namespace whose name sounds like the platform's, so that only its proof is missing."""
    return bool(scope.platform.advice(subject.name if subject.kind == "Namespace" else subject.namespace))


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


def too_many_unjudged(
    coverage: Coverage, results: Iterable[Result], catalogue: Mapping[str, Requirement], scope: Scope, most: float
) -> Iterator[str]:
    """A sentence when a saved snapshot leaves more than a share of the requirements, 0 to 1, without a judged subject for missing kinds.

    Not counted is one that lacks only kinds of which nothing in the snapshot shows that the cluster uses them.
    """
    judged = {result.id for result in results if result.judged}
    lacking = [one.id for one in coverage.not_judged if one.cause is Cause.NOT_IN_SNAPSHOT]
    counted = {id_: gaps(catalogue[id_], scope) for id_ in lacking if id_ not in judged}
    ids = [id_ for id_, found in counted.items() if found.needed or found.added]
    answerable = coverage.judged + len(lacking)
    if len(ids) > most * answerable:
        words = f"{len(ids)} of {answerable} requirements judged nothing, because the snapshot lacks kinds that they read"
        yield f"{words} ({listed(ids, MAX_NAMED)}), and gate.maxNotInSnapshot allows {most:.0%}"


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
    if snapshot.offline and namespaces.known and unknown:
        yield f"pods are in {listed(unknown)}, which the snapshot does not hold: these namespaces were not judged"
