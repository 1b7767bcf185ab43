"""Opens the cluster that experiments are to act on, and refuses what nobody has allowed, before anything is touched."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from chaos.cluster import namespaces
from chaos.engine.campaign import CampaignSetup, Refused, learn_cluster
from chaos.model.experiment import Experiment
from chaos.model.levels import TYPED_LEVEL
from chaos.safety.settings import SettingsError, settings_of
from chaos.surface.options import ChaosOptions
from conformance.plugin.opening import OpenTarget
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.policy.allowlist import not_allowed
from fixtures.simulator.interface import StartError
from fixtures.verdict.record import TargetKind


def campaign_setup(
    opened: OpenTarget, chaos_options: ChaosOptions, experiments: Sequence[Experiment], run_id: str, folder: Path
) -> CampaignSetup:
    """What a campaign needs. Raises :class:`chaos.engine.campaign.Refused` with one line that says what was expected."""
    if opened.cluster is None or opened.target.kind is TargetKind.SNAPSHOT:
        raise Refused("a saved snapshot cannot be broken: name a cluster (--kubeconfig, --in-cluster, --simulate, --local)")
    ours = opened.embedded is not None
    try:
        cluster = _as_chaos_account(opened, opened.cluster)
        access = learn_cluster(cluster, opened.target)
        settings = settings_of(
            opened.policy,
            clusters=chaos_options.clusters,
            max_level=chaos_options.max_level,
            confirm=chaos_options.confirm or (cluster.context if ours else ""),
            nodes=(chaos_options.node,) if chaos_options.node else (),
        )
        if chaos_options.node and cluster.get("nodes", chaos_options.node).status == 404:
            raise Refused(f"--chaos-target {chaos_options.node}: the cluster has no such node")
    except SettingsError as error:
        raise Refused(str(error)) from None
    except ApiTrouble as trouble:
        raise Refused(f"the cluster could not be asked: {trouble.message}") from None
    names = {name for name in (opened.target.cluster_uid, cluster.context) if name}
    shown = " or ".join(sorted(names)) or "its UID"
    if not ours and (refusal := not_allowed(opened.target.cluster_uid, cluster.context, settings.allowed)):
        raise Refused(refusal)
    destructive = [experiment.id for experiment in experiments if experiment.extension.level >= TYPED_LEVEL]
    if (destructive or chaos_options.confirm) and settings.confirmed not in names:
        raise Refused(
            f"--chaos-confirm: expected {shown}, the name of the cluster that {', '.join(destructive) or 'this'} may destroy parts of"
        )
    handover = opened.handover
    return CampaignSetup(
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
        node=chaos_options.node,
    )


def _as_chaos_account(opened: OpenTarget, cluster: Cluster) -> Cluster:
    """On the suite's own local control plane: a session of the account that the project ships for chaos, with its rights and no other."""
    if opened.target.kind is not TargetKind.LOCAL or opened.embedded is None:
        return cluster
    try:
        path = opened.embedded.chaos_kubeconfig()
    except StartError as error:
        raise Refused(f"--local: {error}") from None
    if path is None:
        return cluster
    found = Cluster.from_kubeconfig(path)
    opened.cluster, opened.handover.kubeconfig = found, str(path)
    made = namespaces.uid_of_shared(found)  # with the account, and by us
    opened.policy = msgspec.structs.replace(opened.policy, chaos=msgspec.structs.replace(opened.policy.chaos, namespace_uid=made))
    return found
