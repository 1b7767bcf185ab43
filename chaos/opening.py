"""Opens the cluster that experiments are to act on, and refuses what nobody has allowed, before anything is touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from chaos import namespaces
from chaos.engine.campaign import Refused, Where, identify
from chaos.experiment import Experiment
from chaos.levels import TYPED_LEVEL
from chaos.settings import SettingsError, settings_of
from conformance.allowlist import not_allowed
from conformance.plugin.opening import Opened
from fixtures.cluster import Cluster
from fixtures.record import TargetKind
from fixtures.trouble import ApiTrouble


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run of experiments, decoded."""

    max_level: int | None = None
    clusters: tuple[str, ...] = ()
    experiments: tuple[str, ...] = ()
    node: str = ""
    confirm: str = ""
    recover: bool = False
    folder: str = ""


def open_where(opened: Opened, wishes: Wishes, experiments: Sequence[Experiment], run_id: str, folder: Path) -> Where:
    """What a campaign needs. Raises :class:`chaos.engine.campaign.Refused` with one line that says what was expected."""
    if opened.cluster is None or opened.target.kind is TargetKind.SNAPSHOT:
        raise Refused("a saved snapshot cannot be broken: name a cluster (--kubeconfig, --in-cluster, --simulate, --local)")
    ours = opened.embedded is not None
    try:
        cluster = _as_chaos_account(opened, opened.cluster)
        access = identify(cluster, opened.target)
        settings = settings_of(
            opened.policy,
            clusters=wishes.clusters,
            max_level=wishes.max_level,
            confirm=wishes.confirm or (cluster.context if ours else ""),
            nodes=(wishes.node,) if wishes.node else (),
        )
        if wishes.node and cluster.get("nodes", wishes.node).status == 404:
            raise Refused(f"--chaos-target {wishes.node}: the cluster has no such node")
    except SettingsError as error:
        raise Refused(str(error)) from None
    except ApiTrouble as trouble:
        raise Refused(f"the cluster could not be asked: {trouble.message}") from None
    names = {name for name in (opened.target.cluster_uid, cluster.context) if name}
    shown = " or ".join(sorted(names)) or "its UID"
    if not ours and (refusal := not_allowed(opened.target.cluster_uid, cluster.context, settings.allowed)):
        raise Refused(refusal)
    destructive = [experiment.id for experiment in experiments if experiment.extension.level >= TYPED_LEVEL]
    if (destructive or wishes.confirm) and settings.confirmed not in names:
        raise Refused(
            f"--chaos-confirm: expected {shown}, the name of the cluster that {', '.join(destructive) or 'this'} may destroy parts of"
        )
    handover = opened.handover
    return Where(
        cluster=cluster,
        access=msgspec.structs.replace(
            access,
            kubeconfig=str(Path(handover.kubeconfig).resolve()) if handover.kubeconfig else "",
            context=handover.context or cluster.context or None,  # a current-context may be another one by the time that children read it
            in_cluster=handover.in_cluster,
        ),
        target=opened.target,
        policy=opened.policy,
        settings=settings,
        run_id=run_id,
        folder=folder,
        ours=ours,
        node=wishes.node,
    )


def _as_chaos_account(opened: Opened, cluster: Cluster) -> Cluster:
    """On our own local control plane: a session of the account that the project ships for chaos, with its rights and no other."""
    if opened.target.kind is not TargetKind.LOCAL or opened.embedded is None:
        return cluster
    from fixtures.localcluster import account  # imported late: no other target needs it
    from fixtures.localcluster.controlplane import LocalClusterError
    from fixtures.localcluster.local_cluster import LocalCluster

    if not isinstance(opened.embedded, LocalCluster):
        return cluster
    try:
        path = account.suite_kubeconfig(opened.embedded.plane, "chaos")
    except LocalClusterError as error:
        raise Refused(f"--local: {error}") from None
    found = Cluster.from_kubeconfig(path)
    opened.cluster, opened.handover.kubeconfig = found, str(path)
    made = namespaces.uid_of_shared(found)  # with the account, and by us
    opened.policy = msgspec.structs.replace(opened.policy, chaos=msgspec.structs.replace(opened.policy.chaos, namespace_uid=made))
    return found
