"""Undo of what was changed on a machine below Kubernetes: a host program restores it, another one says whether it is restored."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from chaos import injector, namespaces
from chaos.ledger.access import kubectl
from chaos.ledger.nodes import NodeArgs, changed, same_node
from fixtures.cluster import Cluster
from fixtures.trouble import ApiTrouble


class HostArgs(NodeArgs, frozen=True, kw_only=True):
    """Programs of one node's host. ``check`` prints ``expected`` when, and only when, the prior state is there.

    With ``ours``, the undo runs only while ``check`` prints that: anything else is somebody else's. ``undo`` must be idempotent.
    Output is compared without surrounding white space. ``pull_secrets`` are names of Secrets, which the run's namespace must have.
    """

    run_id: str
    image: str
    undo: tuple[str, ...]
    check: tuple[str, ...]
    expected: str
    ours: str | None = None
    pull_secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.undo or not self.check:
            raise ValueError("host.command: an undo and a check, each with its arguments")


class HostCommand:
    """``host.command``. A host that cannot run pods (its kubelet is stopped) is waited for until the deadline."""

    name: ClassVar[str] = "host.command"
    Args = HostArgs

    def rights(self, args: Any) -> tuple[str, ...]:
        """Reading nodes, and injector pods in a namespace of the run."""
        return ("get nodes", "get namespaces", "create namespaces", *injector.RIGHTS)

    def undo(self, cluster: Cluster, args: HostArgs, deadline: float) -> None:
        """Run the undo unless the check shows that there is nothing to undo. What may still act on the host is ended before."""
        injector.end_all(cluster, namespace=namespaces.of_run(args.run_id), node=args.name, run_id=args.run_id)
        current = self._check(cluster, args, deadline)
        if current == args.expected.strip():
            return
        if args.ours is not None and current != args.ours.strip():
            raise changed(f"host of node {args.name}", args.expected, current)
        result = self._run(cluster, args, args.undo, deadline)
        if result.exit_code != 0:
            raise ApiTrouble("HostCommandFailed", f"{args.undo[0]} on {args.name}: exit {result.exit_code}: {result.output.strip()[-200:]}")

    def verify(self, cluster: Cluster, args: HostArgs, deadline: float) -> str:
        """Empty when a fresh pod's check prints what is expected."""
        current = self._check(cluster, args, deadline)
        return (
            "" if current == args.expected.strip() else f"{args.check[0]} says {current[:200]!r} instead of {args.expected.strip()[:200]!r}"
        )

    def human(self, args: HostArgs) -> tuple[str, str]:
        """The node, and a line that runs the undo on it."""
        words = ("debug", f"node/{args.name}", "--profile=sysadmin", f"--image={args.image}", "--", *injector.HOST, *args.undo)
        return f"host of node {args.name}", kubectl(*words)

    def _check(self, cluster: Cluster, args: HostArgs, deadline: float) -> str:
        same_node(cluster, args)
        result = self._run(cluster, args, args.check, deadline)
        return result.output.strip()  # whatever the exit: `systemctl is-active` says "inactive" with exit 3

    def _run(self, cluster: Cluster, args: HostArgs, argv: tuple[str, ...], deadline: float) -> injector.HostResult:
        namespace = namespaces.ensure_run(cluster, args.run_id)
        return injector.run_on_host(
            cluster,
            namespace=namespace,
            node=args.name,
            image=args.image,
            argv=argv,
            run_id=args.run_id,
            pull_secrets=args.pull_secrets,
            deadline=max(deadline, time.monotonic() + 1),
        )
