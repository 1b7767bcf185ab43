"""Undo of deleted ResourceSlices: their driver publishes the devices again, or is restarted so that it does."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import ClassVar

from chaos.cluster.requests import field, kubectl
from chaos.ledger.protocol import Args
from chaos.ledger.undos.agents import delete_pods, made_by
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.kubernetes.models import Json
from fixtures.model.dra.slices import slices_of

SLICES = "resource.k8s.io/resourceslices"
PATIENCE = 20.0
"""Seconds that a driver gets to publish by itself before its pod on the node is deleted."""


class PublishedArgs(Args, frozen=True, kw_only=True):
    """What ``driver`` published for ``node``: ``devices`` as ``pool/device``. ``owner``, whose UID is ``owner_uid``, makes its pods.

    ``selector`` keeps lists short, and proves nothing.
    """

    driver: str
    node: str
    devices: tuple[str, ...]
    namespace: str
    owner: str
    owner_uid: str
    selector: str

    def __post_init__(self) -> None:
        if not (self.driver and self.node and self.devices and self.owner_uid and self.selector):
            raise ValueError("slices.published: expected a driver, a node, its devices, and the owner and selector of the driver's pods")


class SlicesPublished:
    """``slices.published``: every device of before is in a complete pool again. Nobody but the driver writes what it offers."""

    name: ClassVar[str] = "slices.published"
    Args = PublishedArgs

    def args(self, driver: str, node: str, slices: Iterable[Json], plugin: dict[str, str]) -> PublishedArgs:
        """Arguments for deleting the driver's slices of a node that were just read. Raises ValueError when they offer nothing."""
        return PublishedArgs(driver=driver, node=node, devices=tuple(sorted(offered(slices, driver, node))), **plugin)

    def rights(self, args: PublishedArgs) -> tuple[str, ...]:
        """Reading and watching slices, and deleting pods."""
        return (*(f"{verb} {SLICES}" for verb in ("get", "list", "watch")), "list pods", "delete pods")

    def undo(self, cluster: Cluster, args: PublishedArgs, deadline: float) -> None:
        """Wait for the driver; delete its pod on the node when it does not publish, for a new one begins by publishing."""
        patience = min(PATIENCE, max(deadline - time.monotonic(), 0.0) / 2)
        if not self.verify(cluster, args, time.monotonic() + patience):
            return
        delete_pods(
            cluster,
            args.namespace,
            args.selector,
            lambda pod: field(pod, "spec", "nodeName") == args.node and made_by(args.owner_uid, pod),
        )

    def verify(self, cluster: Cluster, args: PublishedArgs, deadline: float) -> str:
        """Empty once all devices are offered."""

        def differs(slices: Mapping[str, Json]) -> str:
            missing = sorted(set(args.devices) - offered(slices.values(), args.driver, args.node))
            said = f"{args.driver} does not offer {', '.join(missing[:5])} of {args.node}" + (" and others" if missing[5:] else "")
            return said if missing else ""

        with Observation(cluster, SLICES, fields=f"spec.nodeName={args.node}") as observation:
            return observation.await_shown(deadline, differs)

    def human(self, args: PublishedArgs) -> tuple[str, str]:
        """The node's devices, and the line that restarts the driver there."""
        words = ("delete", "pods", f"--selector={args.selector}", f"--field-selector=spec.nodeName={args.node}")
        return f"ResourceSlices of {args.driver} for node {args.node}", kubectl(*words, namespace=args.namespace)


def offered(slices: Iterable[Json], driver: str, node: str) -> set[str]:
    """``pool/device`` of a driver's complete pools of a node (docs/facts/dra.md#slices-and-pools)."""
    found = [item for item in slices_of({**item, "kind": "ResourceSlice"} for item in slices) if (item.driver, item.node) == (driver, node)]
    devices: set[str] = set()
    for pool in {item.pool for item in found}:
        newest = max(item.generation for item in found if item.pool == pool)
        live = [item for item in found if item.pool == pool and item.generation == newest]
        if len(live) == live[0].expected_slices and not any(item.incomplete for item in live):
            devices |= {f"{pool}/{device.name}" for item in live for device in item.devices}
    return devices
