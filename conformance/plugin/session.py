"""One run in one process: what its hooks share (:class:`State`), and the fixtures that hand parts of it to requirements.

PYTEST_DONT_REWRITE: nothing is asserted here, and the detection matrix imports this module before pytest does.
"""

import fcntl
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from conformance.catalogue import Catalogue
from conformance.coverage.missing_kinds import SavedEvidence
from conformance.plugin.answers import NO_CLUSTER, Answers
from conformance.plugin.opening import OpenTarget
from conformance.plugin.options import Options
from conformance.probes.node_documents import DocumentsOnce, NodeDocuments, collect, documents_form
from conformance.requirement import Asks, Form, Made, Needs, Once, Requirement
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.model.cluster import Scope
from fixtures.model.nodes.chosen import named_nodes
from fixtures.policy.model import Policy
from fixtures.policy.policy_file import COPIED_SECRET
from fixtures.policy.waivers import RequirementWaivers
from fixtures.probes.starts import StartLimits, Starts
from fixtures.probes.workspace import Output, Workspace
from fixtures.snapshot.managed_fields import ReadFields, fields_of, read_fields
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.findings import Evidence
from fixtures.verdict.record import Access, Report, Result, TargetKind
from fixtures.verdict.subjects import Inconclusive, NotApplicable


class Baseline(msgspec.Struct, frozen=True):
    """The records of the run that ``--baseline`` names."""

    report: Report
    chaos: ChaosReport | None = None


class State:
    """One run, in one process. Workers have their own; results travel in test reports."""

    def __init__(self, catalogue: Catalogue, options: Options, run_id: str, worker: str = "") -> None:
        self.catalogue = catalogue
        self.options = options
        self.run_id = run_id
        self.worker = worker
        self.started = time.time()
        self.results: dict[str, Result] = {}
        self.chaos: list[ChaosResult] | None = None
        self.residue: list[str] = []
        self.began = False  # whether anything was ever to be created by this process
        self.removable: frozenset[str] = frozenset()  # kinds that the run creates and may remove
        self.never_created: frozenset[str] = frozenset()  # kinds of which nothing is created, because it could not be removed
        self.complaints: list[str] = []
        self.lost_workers: list[str] = []  # of -n, that were killed or crashed
        self.failures: list[str] = []  # what pytest saw fail and no result tells of
        self.another_cluster = ""  # what is said at the end if another cluster answers than at the beginning
        self.other_cluster_uid = ""  # its UID
        self.chosen: frozenset[str] = frozenset()  # names of the nodes that the run is about; empty: of all
        self.left_out: dict[str, str] = {}
        """Ids that were not asked for, and the option that left them out, as it was given: ``"--only GANG"``."""
        self.planned = 0
        self.baseline: Baseline | None = None  # the records that this run may not be worse than
        self.report_folder: Path | None = None
        self.needs = Needs(reads={}, writes={})
        self._opened: OpenTarget | None = None
        self._snapshot: Snapshot | None = None
        self._scope: Scope | None = None
        self.lock_file = ""
        self.documents = DocumentsOnce()
        self.answers = Answers()
        self._made: dict[Callable[[Cluster, Scope], object], object] = {}
        self._lock = threading.RLock()  # probes of a wave ask at the same time

    def once(self, make: Callable[[Cluster, Scope], Made]) -> Made:
        """What ``make`` gave for this run's cluster when it was first called."""
        with self._lock:
            if make not in self._made:
                if self.opened.cluster is None:
                    raise NotApplicable(NO_CLUSTER, "a saved snapshot cannot answer questions to the cluster")
                self._made[make] = make(self.opened.cluster, self.scope)
        found: Made = self._made[make]  # type: ignore[assignment]  # a dict of makers to what each makes has no type
        return found

    @property
    def required(self) -> frozenset[str]:
        """Ids that must judge something, from the options and the policy."""
        return frozenset((*self.options.require, *self.opened.policy.required))

    def evidence(self, requirement: Requirement) -> Evidence:
        """Takes the findings of a requirement, and covers what the run's waivers name."""
        waivers = RequirementWaivers.of(requirement.id, self.opened.handover.waivers)
        if self.has_snapshot and self.snapshot.offline:
            return SavedEvidence(requirement, self.scope, waivers)
        return Evidence(waivers, self.scope.concerns if self.chosen else None)

    def keep_outputs(self, identifier: str, outputs: Sequence[Output]) -> None:
        """Write what a requirement's probe rests on as evidence, where the run keeps any."""
        if not outputs or not self.opened.handover.folder:
            return
        from reports.evidence import bundle  # imported late: most runs keep no evidence

        try:
            bundle.write_outputs(Path(self.opened.handover.folder), identifier, [(one.name, one.content) for one in outputs])
        except OSError as error:
            self.complaints.append(f"evidence of {identifier}: {error.strerror or error}")

    @property
    def opened(self) -> OpenTarget:
        """The target. Raises RuntimeError before it was opened: a mistake of the plugin's."""
        if self._opened is None:
            raise RuntimeError("the target is not open yet")
        return self._opened

    @opened.setter
    def opened(self, value: OpenTarget) -> None:
        self._opened = value

    @property
    def is_open(self) -> bool:
        """Whether the target was opened."""
        return self._opened is not None

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot. Raises RuntimeError before it was taken."""
        if self._snapshot is None:
            raise RuntimeError("the cluster was not read yet")
        return self._snapshot

    @snapshot.setter
    def snapshot(self, value: Snapshot) -> None:
        self._snapshot, self._scope = value, None
        if self.options.nodes:
            self.chosen = named_nodes(self.options.nodes, value.nodes)

    @property
    def scope(self) -> Scope:
        """The snapshot seen through the policy. Raises RuntimeError before the cluster was read."""
        if self._scope is None:
            self._scope = Scope(self.snapshot, self.opened.policy, self.chosen)
        return self._scope

    @property
    def has_snapshot(self) -> bool:
        """Whether the cluster was read."""
        return self._snapshot is not None


STATE = pytest.StashKey[State]()

# -- fixtures of requirements --------------------------------------------------------------------------

EVIDENCE = pytest.StashKey[Evidence]()
SECONDS = pytest.StashKey[float]()
REQUIREMENT = pytest.StashKey[Requirement]()
RESULT_ATTRIBUTE = "gpu_conformance_result"
"""Where a report of pytest's carries the result of a requirement, also between workers."""

PODS_PER_NODE = 4
MORE_PODS = 60
"""Pods that a namespace of the run may hold at a time, for each accelerator node and besides."""


def _state(request: pytest.FixtureRequest) -> State:
    return request.config.stash[STATE]


@pytest.fixture
def judge(request: pytest.FixtureRequest) -> Evidence:
    """Takes the findings of the requirement: ``judge(check(scope))``."""
    evidence = _state(request).evidence(request.node.stash[REQUIREMENT])
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
def may_ask(request: pytest.FixtureRequest) -> bool:
    """Whether this run may ask the API server by dry-run: not with ``--read-only`` or a saved snapshot."""
    state = _state(request)
    return state.options.access.rank >= Access.DRY_RUN.rank and state.opened.target.kind is not TargetKind.SNAPSHOT


@pytest.fixture(scope="session")
def has_baseline(request: pytest.FixtureRequest) -> bool:
    """Whether this run is compared with an earlier one."""
    return bool(_state(request).options.baseline)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The API of the cluster. Not applicable for a saved snapshot.

    A worker opens the kubeconfig anew, and somebody may have written another cluster into it since the run began.
    """
    state = _state(request)
    if state.opened.cluster is None:
        raise NotApplicable(NO_CLUSTER, "a saved snapshot cannot answer questions to the cluster")
    if state.worker and (another := state.opened.another_cluster()):
        raise Inconclusive("AnotherCluster", another)
    return state.opened.cluster


@pytest.fixture(scope="session")
def once(request: pytest.FixtureRequest, cluster: Cluster) -> Once:  # ``cluster`` says why there is none
    """What serves the whole run."""
    return _state(request).once


@pytest.fixture
def asks(request: pytest.FixtureRequest) -> Asks:
    """Asks the cluster for a requirement that only reads."""
    state, id_ = _state(request), request.node.stash[REQUIREMENT].id
    folder = Path(state.opened.handover.folder) if state.options.evidence and state.opened.handover.folder else None

    def answered(question: str, ask: Callable[[Cluster], Made], form: Form[Made]) -> Made:
        def put() -> Made:
            return ask(request.getfixturevalue("cluster"))

        if state.opened.target.kind is TargetKind.SNAPSHOT:
            return put()
        return state.answers.ask(id_, question, put, form, folder)

    return answered


@pytest.fixture
def node_fields(scope: Scope, asks: Asks) -> ReadFields:
    """Reads managedFields of nodes."""

    form: Form[list[Any] | None] = Form(list[Any] | None)

    def read(name: str) -> list[Any] | None:
        return asks(f"managedFields of node {name}", lambda cluster: read_fields(cluster, "nodes", name), form)

    return lambda nodes: fields_of(scope.snapshot, nodes, read)


def workspace_limits(scope: Scope) -> tuple[int, dict[str, int]]:
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
    pods, devices = workspace_limits(scope)
    workspace = Workspace(
        cluster,
        state.run_id,
        state.worker,
        priority_class=probes.priority_class,
        pod_seconds=probes.pod_seconds,
        folder=Path(state.opened.handover.folder) if state.opened.handover.folder else None,
        pods=pods,
        devices=devices,
        pull_secret=(probes.copy_pull_secret, COPIED_SECRET) if probes.copy_pull_secret else None,
        keep_outputs=state.options.evidence,
        removable=state.removable,
        starts=Starts(
            StartLimits(
                per_node=probes.per_node,
                seconds=probes.slow_start_seconds,
                patience=probes.start_seconds,
                image=probes.cpu_image,
                run_as_user=probes.run_as_user,
                pull_secrets=probes.pull_secrets,
            )
        ),
    )
    try:
        yield workspace
        workspace.close()
    finally:  # SIGTERM may end the closing: what then stays is looked for by the sweep
        state.began = workspace.began


@pytest.fixture
def workspace(request: pytest.FixtureRequest, _workspace: Workspace) -> Iterator[Workspace]:
    """Where the requirement creates things; cleared after it. One requirement at a time over all workers."""
    state = _state(request)
    with _turn(state.lock_file):
        yield _workspace
        _workspace.clear()
        state.keep_outputs(request.node.stash[REQUIREMENT].id, _workspace.take_outputs())


@pytest.fixture
def documents(request: pytest.FixtureRequest, scope: Scope, workspace: Workspace) -> NodeDocuments:
    """What the drivers of the chosen nodes say, read once in a run."""
    return _state(request).documents.get(scope, workspace)


@pytest.fixture
def documents_too(request: pytest.FixtureRequest, scope: Scope, asks: Asks) -> NodeDocuments:
    """The same for a requirement that judges without them too: none where the run may not ask drivers, or found no way to."""
    if _state(request).options.access is not Access.HARDWARE or scope.snapshot.offline:
        return NodeDocuments()

    def ask(_: Cluster) -> NodeDocuments:
        found: NodeDocuments = request.getfixturevalue("documents")
        return found

    try:
        return asks("documents of drivers", ask, documents_form(scope))
    except (ApiTrouble, Inconclusive, NotApplicable):
        return NodeDocuments()


@pytest.fixture
def read_documents(request: pytest.FixtureRequest, documents_too: NodeDocuments) -> Callable[[Collection[str]], NodeDocuments]:
    """Reads documents of nodes now, for what is compared with something of the same moment: those of which the run has one already."""

    def read(nodes: Collection[str]) -> NodeDocuments:
        if not documents_too.by_node:
            return NodeDocuments()
        scope, workspace = (request.getfixturevalue(name) for name in ("scope", "workspace"))
        workspace.clear()
        try:
            return collect(scope, workspace, nodes=nodes)
        except (ApiTrouble, Inconclusive, NotApplicable):
            return NodeDocuments()

    return read


@contextmanager
def _turn(lock_file: str) -> Iterator[None]:
    """Devices are shared by all workers, so probes must not compete for them: a second line of defence behind xdist's group."""
    if not lock_file:
        yield
        return
    with Path(lock_file).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
