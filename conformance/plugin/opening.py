"""Opens what is judged: a live cluster, a saved snapshot, a local control plane or the embedded simulated cluster."""

from __future__ import annotations

import difflib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from conformance.catalogue import Catalogue, CatalogueError
from conformance.plugin.options import Options
from conformance.policy import Policy
from conformance.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.cluster import SIMULATED_MARK, Cluster
from fixtures.models import Json
from fixtures.record import Target, TargetKind
from fixtures.simulator.scenario import ScenarioError
from fixtures.snapshot import Snapshot
from fixtures.snapshot_files import SnapshotError, load_files
from fixtures.trouble import ClusterUnreachable

if TYPE_CHECKING:
    from fixtures.localcluster.local_cluster import LocalCluster
    from fixtures.simulator.embedded import EmbeddedCluster

DEFAULT_SCENARIO = "healthy"
"""The nodes of a local control plane whose scenario was not named."""

SIMULATED_PACE: Json = {"probes": {"windowSeconds": 1.0, "startSeconds": 30.0}}
"""The simulated programs react within tens of milliseconds: watching an absence for half a minute would prove no more."""


LOCAL_PACE: Json = {"probes": {"windowSeconds": 2.0, "startSeconds": 60.0}}
"""Real schedulers and controllers react within a second, the simulated nodes at once."""


class Handover(msgspec.Struct, kw_only=True):
    """What a worker needs to judge the same target as the controller; travels as JSON."""

    target: Target
    run_id: str
    kubeconfig: str = ""
    context: str | None = None
    in_cluster: bool = False
    snapshot_file: str = ""
    folder: str = ""  # the run's own, for what vouches for it
    policy: Json = {}


class Opened:
    """The target of a run. ``cluster`` is None for a saved snapshot."""

    def __init__(self, target: Target, cluster: Cluster | None, policy: Policy, handover: Handover) -> None:
        self.target = target
        self.cluster = cluster
        self.policy = policy
        self.handover = handover
        self.embedded: EmbeddedCluster | LocalCluster | None = None
        self.offline: Snapshot | None = None
        self.folder: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """End the embedded or local cluster and drop temporary files."""
        if self.embedded is not None:
            self.embedded.stop()
        if self.folder is not None:
            self.folder.cleanup()


def open_target(options: Options, run_id: str) -> Opened:
    """Open the target the options name. Raises :class:`pytest.UsageError` with one line when it cannot be had."""
    try:
        document = read_policy_file(Path(options.policy)) if options.policy else {}
        if options.every_node:
            document = {**document, "probes": {**document.get("probes", {}), "everyNode": True}}
        if options.snapshot:
            return _open_snapshot(options, run_id, document)
        if options.kubeconfig or options.in_cluster:
            return _open_live(options, run_id, document)
        if options.local:
            return _open_local(options, run_id, document)
        return _open_simulated(options, run_id, document)
    except (ClusterUnreachable, ScenarioError, SnapshotError, PolicyError) as error:
        raise pytest.UsageError(str(error)) from None


def check_policy_names(policy: Policy, catalogue: Catalogue) -> None:
    """Areas and ids that the policy names must be in the catalogue. Raises :class:`pytest.UsageError` with one line."""
    areas = [area.area for area in catalogue.areas]
    for area in policy.gate.areas:
        if area not in areas:
            near = difflib.get_close_matches(area.upper(), areas, n=1, cutoff=0.4)
            told = f"did you mean {near[0]}?" if near else f"areas: {', '.join(areas)}"
            raise pytest.UsageError(f"policy: gate.areas: unknown area {area!r}; {told}")
    for id_ in policy.required:
        try:
            catalogue.get(id_)
        except CatalogueError as error:
            raise pytest.UsageError(f"policy: required: {error}") from None


def reopen(handover: Handover) -> Opened:
    """Open the controller's target in a worker."""
    cluster = None
    if handover.in_cluster:
        cluster = Cluster.in_cluster()
    elif handover.kubeconfig:
        cluster = Cluster.from_kubeconfig(Path(handover.kubeconfig), handover.context)
    return Opened(handover.target, cluster, build_policy(handover.policy), handover)


def _open_live(options: Options, run_id: str, document: Json) -> Opened:
    cluster = Cluster.in_cluster() if options.in_cluster else Cluster.from_kubeconfig(Path(options.kubeconfig), options.context)
    target = _target(cluster, TargetKind.LIVE)
    handover = Handover(
        target=target,
        run_id=run_id,
        kubeconfig=options.kubeconfig,
        context=options.context,
        in_cluster=options.in_cluster,
        policy=document,
    )
    return Opened(target, cluster, build_policy(document), handover)


def _open_snapshot(options: Options, run_id: str, document: Json) -> Opened:
    snapshot = load_files(Path(options.snapshot))
    target = Target(kind=TargetKind.SNAPSHOT, server=options.snapshot, cluster_uid=snapshot.cluster_uid)
    opened = Opened(target, None, build_policy(document), Handover(target=target, run_id=run_id, policy=document))
    opened.offline = snapshot
    return opened


def _open_simulated(options: Options, run_id: str, document: Json) -> Opened:
    from fixtures.simulator.embedded import EmbeddedCluster, EmbeddedError  # imported late: a live run does not need it

    folder = tempfile.TemporaryDirectory(prefix="gpu-conformance-")
    embedded = None
    try:
        embedded = EmbeddedCluster.start(options.simulate, Path(folder.name))
        cluster = Cluster.from_kubeconfig(embedded.kubeconfig)
        target = _target(cluster, TargetKind.SIMULATED)
        target.scenario, target.defects = embedded.scenario, list(embedded.defects)
        policy = build_policy(SIMULATED_PACE, embedded.policy, document)
        handover = Handover(target=target, run_id=run_id, kubeconfig=str(embedded.kubeconfig), policy=_document(policy))
        opened = Opened(target, cluster, policy, handover)
    except BaseException as error:
        if embedded is not None:
            embedded.stop()
        folder.cleanup()
        if isinstance(error, EmbeddedError):
            pytest.exit(f"gpu-conformance: {error}", returncode=3)
        raise
    opened.embedded, opened.folder = embedded, folder
    return opened


def _open_local(options: Options, run_id: str, document: Json) -> Opened:
    from fixtures.localcluster.binaries import BinariesMissing  # imported late, as above
    from fixtures.localcluster.certificates import CertificateError
    from fixtures.localcluster.controlplane import LocalClusterError
    from fixtures.localcluster.local_cluster import LocalCluster
    from fixtures.localcluster.release import UnknownMinor

    folder = tempfile.TemporaryDirectory(prefix="gpu-conformance-")
    local = None
    try:
        bin_dir = Path(options.local_bin) if options.local_bin else None
        local = LocalCluster.start(options.local, options.simulate or DEFAULT_SCENARIO, Path(folder.name), bin_dir)
        cluster = Cluster.from_kubeconfig(local.kubeconfig)
        target = _target(cluster, TargetKind.LOCAL)
        target.scenario, target.defects, target.notes = local.scenario, list(local.defects), list(local.warnings)
        target.components = list(local.components)
        policy = build_policy(LOCAL_PACE, local.policy, document)
        handover = Handover(target=target, run_id=run_id, kubeconfig=str(local.kubeconfig), policy=_document(policy))
        opened = Opened(target, cluster, policy, handover)
    except BaseException as error:
        if local is not None:
            local.stop()
        folder.cleanup()
        if isinstance(error, BinariesMissing | UnknownMinor | CertificateError):
            raise pytest.UsageError(f"--local: {error}") from None
        if isinstance(error, LocalClusterError):
            pytest.exit(f"gpu-conformance: {error}", returncode=3)
        raise
    opened.embedded, opened.folder = local, folder
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
