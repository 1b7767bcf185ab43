"""The fixtures a requirement gets, and how what it found becomes a result."""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conformance import unread
from conformance.needs import Needs
from conformance.plugin.state import STATE, State
from conformance.policy import Policy
from conformance.requirement import Requirement
from conformance.scope import Scope
from fixtures.cluster import Cluster
from fixtures.evidence import Evidence, Inconclusive, NotApplicable
from fixtures.probes.workspace import Workspace
from fixtures.record import Access, Result, SubjectResult, TargetKind, Verdict
from fixtures.snapshot import Snapshot

EVIDENCE = pytest.StashKey[Evidence]()
REQUIREMENT = pytest.StashKey[Requirement]()
PODS_PER_NODE = 4
MORE_PODS = 60
"""Pods that a namespace of the run may hold at a time, for each accelerator node and besides."""


def _state(request: pytest.FixtureRequest) -> State:
    return request.config.stash[STATE]


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Evidence:
    """Takes the findings of the requirement: ``judge(check(scope))``."""
    evidence = Evidence()
    request.node.stash[EVIDENCE] = evidence
    return evidence


@pytest.fixture(scope="session")
def policy(request: pytest.FixtureRequest) -> Policy:
    """What the owner expects of the cluster."""
    return _state(request).opened.policy


@pytest.fixture(scope="session")
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """The cluster as it was read once."""
    return _state(request).snapshot


@pytest.fixture(scope="session")
def scope(request: pytest.FixtureRequest) -> Scope:
    """The snapshot seen through the policy."""
    return _state(request).scope


@pytest.fixture(scope="session")
def now(snapshot: Snapshot) -> float:
    """When the snapshot was taken, Unix seconds: ages are judged against it."""
    return snapshot.taken_at


@pytest.fixture(scope="session")
def needs(request: pytest.FixtureRequest) -> Needs:
    """What the selected requirements do to the cluster."""
    return _state(request).needs


@pytest.fixture(scope="session")
def may_probe(request: pytest.FixtureRequest, snapshot: Snapshot) -> bool:
    """Whether this run may create pods at all: not with ``--read-only`` or a saved snapshot."""
    return _state(request).options.access.rank >= Access.WORKLOAD.rank and not snapshot.offline


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The API of the cluster. Not applicable for a saved snapshot."""
    opened = _state(request).opened
    if opened.cluster is None:
        raise NotApplicable("NoCluster", "a saved snapshot answers no questions")
    return opened.cluster


def room(scope: Scope) -> tuple[int, dict[str, int]]:
    """The most pods, and devices by resource name, that a namespace of the run may hold at a time.

    Probes ask for more than there is: a gang and its rival for all of it each, with a pod that does not fit.
    """
    total: Counter[str] = Counter()
    for node in scope.accelerator_nodes:
        total.update(scope.device_allocatable(node))
    return MORE_PODS + PODS_PER_NODE * len(scope.accelerator_nodes), {name: 4 * (count + 1) for name, count in total.items()}


@pytest.fixture(scope="session")
def _workspace(request: pytest.FixtureRequest, cluster: Cluster, scope: Scope) -> Iterator[Workspace]:
    state = _state(request)
    probes = state.opened.policy.probes
    pods, devices = room(scope)
    workspace = Workspace(
        cluster,
        state.run_id,
        state.worker,
        priority_class=probes.priority_class,
        pod_seconds=probes.pod_seconds,
        folder=Path(state.opened.handover.folder) if state.opened.handover.folder else None,
        pods=pods,
        devices=devices,
    )
    yield workspace
    workspace.close()
    state.began = workspace.began


@pytest.fixture
def workspace(request: pytest.FixtureRequest, _workspace: Workspace) -> Iterator[Workspace]:
    """Where the requirement creates things; cleared after it. One requirement at a time over all workers."""
    with _turn(_state(request).lock_file):
        yield _workspace
        _workspace.clear()


@contextmanager
def _turn(lock_file: str) -> Iterator[None]:
    """Devices are shared by all workers, so probes must not compete for them: a second line of defence behind xdist's group."""
    if not lock_file:
        yield
        return
    with Path(lock_file).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def check_preconditions(requirement: Requirement, state: State) -> None:
    """Raise why a requirement cannot be judged: beyond the ceiling of access, or what it reads is missing."""
    if state.opened.target.kind is TargetKind.SNAPSHOT and requirement.access is not Access.READ:
        raise NotApplicable("SnapshotTarget", "a saved snapshot can answer read requirements only")
    if requirement.access.rank > state.options.access.rank:
        raise NotApplicable("AboveAccess", f"needs access {requirement.access}, the run's ceiling is {state.options.access}")
    unread.check_read(requirement, state.scope)


def conclude(requirement: Requirement, evidence: Evidence, error: BaseException | None, seconds: float, state: State) -> Result:
    """The result of a requirement: from its findings, or from what it raised."""
    required = requirement.id in state.required
    judgement = evidence.judgement(requirement.level, strict=state.options.strict, required=required)
    if isinstance(error, NotApplicable):
        verdict = Verdict.FAILED if required else Verdict.NOT_APPLICABLE
        judgement.verdict, judgement.reason_code, judgement.message = verdict, error.code, error.message
    elif isinstance(error, Inconclusive):
        # what was found bad before the trouble stays found; what was found good proves nothing any more
        if judgement.verdict not in (Verdict.FAILED, Verdict.WARNED):
            judgement.verdict, judgement.reason_code, judgement.message = Verdict.INCONCLUSIVE, error.code, error.message
    elif error is not None:
        text = f"{type(error).__name__}: {error}"
        judgement.verdict, judgement.reason_code, judgement.message = Verdict.ERROR, "InternalError", text[:1000]
    if state.has_snapshot:
        unread.amend(judgement, requirement, state.scope, required=required)
    return Result(
        id=requirement.id,
        title=requirement.title,
        area=requirement.area,
        level=requirement.level,
        access=requirement.access,
        verdict=judgement.verdict,
        reason_code=judgement.reason_code,
        message=judgement.message,
        judged=judgement.judged,
        total=judgement.total,
        duration_seconds=round(seconds, 3),
        subjects=judgement.subjects,
        subjects_omitted=judgement.subjects_omitted,
        rationale=requirement.rationale,
        remediation=requirement.remediation,
        references=requirement.references,
    )


def failure_text(result: Result) -> str:
    """What pytest prints of a requirement that did not pass: at most ten subjects, a line each, fit for a terminal."""
    from reports.text import one_line  # imported late: most requirements pass

    lines = [f"{result.id} {result.title}", f"{result.verdict} {result.reason_code}: {result.message}"]
    lines += [f"  {_line(subject)}" for subject in result.subjects[:10] if subject.verdict in (Verdict.FAILED, Verdict.INCONCLUSIVE)]
    lines.append(f"remediation: {result.remediation}")
    return "\n".join(line[: len(line) - len(line.lstrip())] + one_line(line) for line in lines)


def _line(subject: SubjectResult) -> str:
    path = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    text = subject.message or f"observed {subject.observed}, expected {subject.expected}"
    return f"{subject.kind} {path}: {text}"
