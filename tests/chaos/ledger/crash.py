"""A run that ends without warning at a chosen instant, for a process of its own.

It holds the Lease, strips a label, cordons a node, scales a workload down and creates an object, each written down first. The
instants are counted over all of it: before an entry is armed, armed, acted on, applied, and in the middle of undoing.
"""

import os
import signal
from pathlib import Path

from chaos.act.context import ActivityContext
from chaos.safety.lease import AbortFlag, must_hold
from chaos.safety.lease_keeper import LeaseKeeper
from fixtures.cluster.client import Cluster
from tests.chaos.ledger.acts import Act, prepare
from tests.chaos.ledger.simulated_cluster import ANYTHING, RUN, ledger, plan

INSTANTS = 19
ACTS = (
    Act("labels", "gpu-1", "nvidia.com/gpu.product"),
    Act("unschedulable", "gpu-1", value=True),
    Act("replicas", value=0),
    Act("create", key="canary"),
)


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
    for act in ACTS:
        undo, args, do = prepare(cluster, act)
        with acting.fault(undo, args) as fault:
            clock.tick()
            do()
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
