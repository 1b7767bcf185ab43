"""A run that ends without warning at a chosen instant, for a process of its own.

It holds the Lease, strips a label, cordons a node, scales a workload down and creates an object, each written down first. The
instants are counted over all of it: before an entry is armed, armed, acted on, applied, and in the middle of undoing.
"""

import os
import signal
from pathlib import Path

from chaos.act.context import ActivityContext
from chaos.ledger.undos.nodes import NodeLabels, NodeUnschedulable
from chaos.ledger.undos.objects import AbsentArgs
from chaos.ledger.undos.workloads import WorkloadReplicas
from chaos.safety.abort_flag import AbortFlag
from chaos.safety.lease import must_hold
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from fixtures.ownership import owned
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, fetch, ledger, plan

INSTANTS = 19


class Clock:
    """Ends the process at the instant it was told."""

    def __init__(self, instant: int) -> None:
        self.left = instant

    def tick(self) -> None:
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.left -= 1


def main(kubeconfig: Path, folder: Path, instant: int) -> None:
    cluster, clock = Cluster.from_kubeconfig(kubeconfig), Clock(instant)
    LeaseKeeper(cluster, RUN, lambda reason: None).acquire()
    book = ledger(folder, cluster)
    acting = ActivityContext(cluster, plan(), book, AbortFlag(folder), allowed=lambda: must_hold(cluster, RUN), terms=ANYTHING)
    clock.tick()
    node = fetch(cluster, "nodes", "gpu-1")
    labels = NodeLabels().args(node, {"nvidia.com/gpu.product": None, "chaos": "yes"})
    with acting.fault("node.labels", labels) as fault:
        clock.tick()
        cluster.patch("nodes", "gpu-1", {"metadata": {"labels": labels.ours}})
        clock.tick()
        fault.applied()
        clock.tick()
    with acting.fault("node.unschedulable", NodeUnschedulable().args(node, True)) as fault:
        clock.tick()
        cluster.patch("nodes", "gpu-1", {"spec": {"unschedulable": True}})
        clock.tick()
        fault.applied()
        clock.tick()
    replicas = WorkloadReplicas().args("apps/deployments", fetch(cluster, "apps/deployments", "gpu-operator", "gpu-operator"), 0)
    with acting.fault("workload.replicas", replicas) as fault:
        clock.tick()
        cluster.patch("apps/deployments", "gpu-operator", {"spec": {"replicas": 0}}, "gpu-operator")
        clock.tick()
        fault.applied()
        clock.tick()
    canary = AbsentArgs(key="configmaps", namespace="gpu-operator", name="canary", run_id=RUN)
    with acting.fault("object.absent", canary) as fault:
        clock.tick()
        meta = {"name": "canary", "labels": owned.labels(RUN)}
        cluster.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}, namespace="gpu-operator")
        clock.tick()
        fault.applied()
        clock.tick()
    real = book.mark

    def mark(*words: object) -> None:
        clock.tick()
        real(*words)  # type: ignore[arg-type]

    book.mark = mark  # type: ignore[method-assign, assignment]
    acting.restore(10, seqs={4, 3})
    os.kill(os.getpid(), signal.SIGKILL)
