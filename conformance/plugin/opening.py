"""Opens the target of a run: a live cluster, a saved snapshot, a local control plane or the simulated cluster."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from conformance.catalogue import Catalogue, CatalogueError
from conformance.plugin.options import Options
from fixtures.cluster.client import SIMULATED_MARK, Cluster
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.kubernetes.models import Json
from fixtures.localcluster import interface as localcluster
from fixtures.localcluster.interface import NotStartable
from fixtures.model.platform.versions import unknown_part
from fixtures.policy.allowlist import cluster_uid, is_another
from fixtures.policy.model import Policy
from fixtures.policy.platforms import Chosen, PresetError, named
from fixtures.policy.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.policy.waivers import WaiverFile
from fixtures.simulator import interface as simulator
from fixtures.simulator.interface import RunningCluster, ScenarioError, StartError
from fixtures.snapshot.files import SnapshotError, load_files
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.record import Target, TargetKind
from reports.terminal.actions import harmless

DEFAULT_SCENARIO = "healthy"
"""The nodes of a local control plane whose scenario was not named."""

SIMULATED_PACE: Json = {"probes": {"windowSeconds": 1.0, "startSeconds": 30.0}}
"""The simulated programs react within tens of milliseconds: watching an absence for half a minute would prove no more."""


LOCAL_PACE: Json = {
    "accelerators": {"newNodeMinutes": 0},
    "nodes": {"heldHours": 0},
    "operators": {"rolloutMinutes": 0},
    "probes": {"windowSeconds": 2.0, "startSeconds": 60.0},
}
"""Real schedulers and controllers react within a second, the simulated nodes at once. Every node and pod was made a moment ago."""


REAL_PACE: Json = {**LOCAL_PACE, "probes": {"windowSeconds": 5.0, "startSeconds": 180.0, "atOnce": 2}}
"""A node whose processor is translated starts a pod in ten to twenty seconds."""

WORKER_KEY = "gpu_conformance"
"""Where xdist carries what follows, as JSON."""


class WorkerHandover(msgspec.Struct, kw_only=True):
    """What a worker needs to judge the same target as the controller; travels as JSON."""

    target: Target
    run_id: str
    kubeconfig: str = ""
    context: str | None = None
    in_cluster: bool = False
    snapshot_file: str = ""
    folder: str = ""  # the run's own, for what vouches for it
    grouped: bool = False  # xdist keeps the tests of a group on one worker; a worker reads the command line alone, which may not say so
    policy: Json = {}  # presets included
    waivers: WaiverFile = WaiverFile()


class OpenTarget:
    """The target of a run. ``cluster`` is None for a saved snapshot.

    ``documents`` are what lies over the policy's defaults, the owner's last.
    """

    def __init__(
        self, target: Target, cluster: Cluster | None, policy: Policy, handover: WorkerHandover, documents: tuple[Json, ...] = ()
    ) -> None:
        self.target = target
        self.cluster = cluster
        self.policy = policy
        self.handover = handover
        self.documents = documents
        self.presets: list[Chosen] = []
        self.embedded: RunningCluster | None = None
        self.offline: Snapshot | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def adopt(self, presets: Sequence[Chosen]) -> None:
        """Lay presets between the defaults and what the owner wrote. Raises :class:`PolicyError`."""
        self.presets = list(presets)
        self.policy = build_policy(*(one.policy for one in presets), *self.documents)
        self.handover.policy = _document(self.policy)

    def another_cluster(self) -> str:
        """One sentence if requests now lead to another cluster than the one that was read. If nothing tells, other requests say so."""
        other = self.other_cluster_uid()
        return is_another(other, self.target.cluster_uid) if other else ""

    def other_cluster_uid(self) -> str:
        """UID of the cluster to which requests now lead, if that is another one than was read; else empty, as above."""
        if self.cluster is None or not self.target.cluster_uid:
            return ""
        try:
            uid = cluster_uid(self.cluster)
        except ApiTrouble:
            return ""
        return "" if uid == self.target.cluster_uid else uid

    def close(self) -> None:
        """End the embedded or local cluster and drop temporary files."""
        if self.embedded is not None:
            self.embedded.stop()
        if self.folder is not None:
            self.folder.cleanup()


def open_target(options: Options, run_id: str) -> OpenTarget:
    """Open the target the options name. Raises :class:`pytest.UsageError` with one line when it cannot be opened."""
    try:
        document = read_policy_file(Path(options.policy)) if options.policy else {}
        if options.every_node:
            document = {**document, "probes": {**document.get("probes", {}), "everyNode": True}}
        presets = named(options.platform, "--platform") if options.platform else named_by(build_policy(document))
        opened = _open(options, run_id, document)
        if presets:
            opened.adopt(presets)
        return opened
    except (ClusterUnreachable, ScenarioError, SnapshotError, PolicyError, PresetError) as error:
        raise pytest.UsageError(harmless(str(error))) from None  # a server may have said it, and the line may be in the log of a CI system


def named_by(policy: Policy) -> list[Chosen]:
    """The presets that a policy names; none where it leaves the choice to the cluster's marks. Raises :class:`PresetError`."""
    names = policy.platform.split(",") if isinstance(policy.platform, str) else policy.platform
    return named((name.strip() for name in names if name.strip()), "the policy's platform")


def _open(options: Options, run_id: str, document: Json) -> OpenTarget:
    if options.snapshot:
        return _open_snapshot(options, run_id, document)
    if options.kubeconfig or options.in_cluster:
        return _open_live(options, run_id, document)
    return _open_started(options, run_id, document)


def check_policy_names(policy: Policy, catalogue: Catalogue) -> None:
    """Areas, ids and parts that the policy names are known. Raises :class:`pytest.UsageError` with one line."""
    for key, names, check in (("gate.areas", policy.gate.areas, catalogue.check_area), ("required", policy.required, catalogue.get)):
        try:
            for name in names:
                check(name)
        except CatalogueError as error:
            raise pytest.UsageError(f"policy: {key}: {error}") from None
    if problem := unknown_part(policy.operators.version_floors):
        raise pytest.UsageError(harmless(f"policy: operators.versionFloors: {problem}"))


def reopen(handover: WorkerHandover) -> OpenTarget:
    """Open the controller's target in a worker."""
    cluster = None
    if handover.in_cluster:
        cluster = Cluster.in_cluster()
    elif handover.kubeconfig:
        cluster = Cluster.from_kubeconfig(Path(handover.kubeconfig), handover.context)
    return OpenTarget(handover.target, cluster, build_policy(handover.policy), handover)


def _judged_by(handover: WorkerHandover, cluster: Cluster | None, *documents: Json) -> OpenTarget:
    """The target under the policy that the documents make, the owner's last."""
    opened = OpenTarget(handover.target, cluster, Policy(), handover, documents)
    opened.adopt([])
    return opened


def _open_live(options: Options, run_id: str, document: Json) -> OpenTarget:
    cluster = Cluster.in_cluster() if options.in_cluster else Cluster.from_kubeconfig(Path(options.kubeconfig), options.context)
    target = _target(cluster, TargetKind.LIVE)
    handover = WorkerHandover(
        target=target,
        run_id=run_id,
        kubeconfig=options.kubeconfig,
        context=(cluster.context or None) if options.kubeconfig else None,  # current-context may be another one when workers read it
        in_cluster=options.in_cluster,
    )
    return _judged_by(handover, cluster, document)


def _open_snapshot(options: Options, run_id: str, document: Json) -> OpenTarget:
    snapshot = load_files(Path(options.snapshot))
    target = Target(kind=TargetKind.SNAPSHOT, server=options.snapshot, cluster_uid=snapshot.cluster_uid)
    opened = _judged_by(WorkerHandover(target=target, run_id=run_id), None, document)
    opened.offline = snapshot
    return opened


def _open_started(options: Options, run_id: str, document: Json) -> OpenTarget:
    """The embedded simulated cluster, or a local control plane with its nodes."""
    folder = tempfile.TemporaryDirectory(prefix="gpu-conformance-")
    started: RunningCluster | None = None
    try:
        if options.local:
            Path(folder.name).rmdir()  # made anew with the record by which a later start removes what a killed one left
            bin_dir = Path(options.local_bin) if options.local_bin else None
            scenario = options.simulate or DEFAULT_SCENARIO
            local = localcluster.start(options.local, scenario, Path(folder.name), bin_dir, real_nodes=options.real_nodes)
            pace = REAL_PACE if options.real_nodes else LOCAL_PACE
            kind = TargetKind.SIMULATED_NODES if options.real_nodes else TargetKind.LOCAL
            started, notes, components = local, local.warnings, local.components
        else:
            started = simulator.start(options.simulate, Path(folder.name))
            kind, pace, notes, components = TargetKind.SIMULATED, SIMULATED_PACE, [], []
        cluster = Cluster.from_kubeconfig(started.kubeconfig)
        target = _target(cluster, kind)
        target.scenario, target.defects = started.scenario, list(started.defects)
        target.notes, target.components = list(notes), list(components)
        handover = WorkerHandover(target=target, run_id=run_id, kubeconfig=str(started.kubeconfig))
        opened = _judged_by(handover, cluster, pace, started.policy, document)
    except BaseException as error:
        if started is not None:
            started.stop()
        folder.cleanup()
        if isinstance(error, NotStartable):
            raise pytest.UsageError(f"--local: {error}") from None
        if isinstance(error, StartError):
            pytest.exit(f"gpu-conformance: {error}", returncode=3)
        raise
    opened.embedded, opened.folder = started, folder
    return opened


def _target(cluster: Cluster, kind: TargetKind) -> Target:
    version = cluster.probe()
    simulated = SIMULATED_MARK in version
    return Target(
        kind=TargetKind.SIMULATED if simulated else kind,
        server=cluster.shown_server,
        context=cluster.context,
        kubernetes_version=version,
    )


def _document(policy: Policy) -> Json:
    document: Json = msgspec.to_builtins(policy)
    return document
