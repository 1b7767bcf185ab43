"""Undos of changes on a host below Kubernetes. Each is a registered action with programs of its own.

An entry of a ledger says which action and of what (a unit of the run, a device), never a program, an image or a Secret: those are the
suite's own and its policy's (:class:`Means`). Every argument is a plain word of a known form: it becomes part of a program's arguments.
"""

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from chaos.cluster import injector, namespaces
from chaos.cluster.injector import nvidia_smi
from chaos.cluster.requests import kubectl
from chaos.ledger.undos import Undo
from chaos.ledger.undos.nodes import NodeArgs, changed, same_node
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble

MOCK = "nvml-mock-ctl"
STATE = ("sh", "-c", f'found=$({MOCK} status) || exit; echo "$found" | grep -o -E \'"(mode|eventWait)": ?"[a-z_]+"\'')
"""Prints what the mocked NVML overrides, and nothing that only counts up. Ends as the mock does where that fails, and prints nothing."""

KUBELET_UNIT = re.compile(r"(?=[\w@.-]{1,100}$)[\w@.-]*(?:kubelet|kubelite|hyperkube|k3s|rke2|k0s|kubernetes)[\w@.-]*\.service", re.ASCII)
"""Units that may run a kubelet: no entry of a ledger makes the suite start another one."""

RUNTIME_UNIT = re.compile(r"(?:containerd|crio|cri-o)\.service")
"""Units that run a container runtime and nothing else. Where it is a child of the kubelet's (k3s), no unit restarts it alone."""

_UNIT = re.compile(r"gpu-conformance-[a-z0-9][a-z0-9-]{0,80}-(?:kubelet-(?:restart|start|stop)|runtime-restart|reboot|delay-end|link-up)")
NETWORK_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
DELAY_HANDLE = "677:"
"""Of the queue that delays, so that no other one is taken off."""

_UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,79}")
_MODE = re.compile(r"(\S+), (Enabled|Disabled)")
_ALL = "all devices"
_STATE_LINE = re.compile(r'"(mode|eventWait)": ?"[a-z_]+"')
_IMAGE = "busybox"
"""Shown in commands for people; an image that is run comes from the policy."""

Self = TypeVar("Self", bound="HostAction")


class Means(msgspec.Struct, frozen=True, kw_only=True):
    """With what host programs are run: the policy's image and the names of its pull secrets, for a run."""

    run_id: str
    image: str
    pull_secrets: tuple[str, ...] = ()


class Programs(msgspec.Struct, frozen=True, kw_only=True):
    """Programs of a host. ``check`` prints ``expected`` when, and only when, the prior state is there.

    With ``ours``, the undo runs only while ``check`` prints that: anything else is somebody else's. ``undo`` is idempotent; an empty
    one has nothing to undo. ``read`` finds the state in what ``check`` prints. It is compared without surrounding white space.
    """

    undo: tuple[str, ...] = ()
    check: tuple[str, ...]
    expected: str
    ours: str | None = None
    read: Callable[[str], str] = str


class HostAction(Undo):
    """What all of them do. A host that cannot run pods (its kubelet is stopped) is waited for until the deadline."""

    RIGHTS = ("get nodes", "get namespaces", "create namespaces", *namespaces.RIGHTS, *injector.RIGHTS)

    def __init__(self, means: Means | None = None) -> None:
        self._means = means

    def by(self: Self, means: Means) -> Self:
        """The action, with what it runs programs with."""
        return type(self)(means)

    @abstractmethod
    def programs(self, args: Any) -> Programs:
        """The suite's own programs for these arguments."""

    def undo(self, cluster: Cluster, args: Any, deadline: float) -> None:
        """Run the undo unless the check shows that there is nothing to undo. What may still act on the host is ended before."""
        run_id, programs = self._with().run_id, self.programs(args)
        for own in namespaces.find_all_of_run(cluster, run_id):
            injector.delete_injectors(cluster, namespace=own, node=args.name, run_id=run_id)
        current = self._check(cluster, args, deadline)
        if current == programs.expected.strip() or not programs.undo:
            return
        if programs.ours is not None and current != programs.ours.strip():
            raise changed(f"host of node {args.name}", programs.expected, current)
        result = self._run(cluster, args, programs.undo, deadline)
        if result.exit_code != 0:
            reported = result.output.strip()[-200:]
            raise ApiTrouble("HostCommandFailed", f"{programs.undo[0]} on {args.name}: exit {result.exit_code}: {reported}")

    def verify(self, cluster: Cluster, args: Any, deadline: float) -> str:
        """Empty when a fresh pod's check prints what is expected."""
        current, programs = self._check(cluster, args, deadline), self.programs(args)
        expected = programs.expected.strip()
        return "" if current == expected else f"{programs.check[0]} says {current[:200]!r} instead of {expected[:200]!r}"

    def human(self, args: Any) -> tuple[str, str]:
        """The node, and a line that runs the undo, or the check where there is nothing to undo, on it."""
        programs = self.programs(args)
        argv = programs.undo or programs.check
        words = ("debug", f"node/{args.name}", "--profile=sysadmin", f"--image={_IMAGE}", "--", *injector.HOST, *argv)
        return f"host of node {args.name}", kubectl(*words)

    def _with(self) -> Means:
        if self._means is None:
            raise ApiTrouble("NoMeans", f"{self.name}: nobody said with which image host programs are run")
        return self._means

    def _check(self, cluster: Cluster, args: Any, deadline: float) -> str:
        same_node(cluster, args)
        programs = self.programs(args)
        result = self._run(cluster, args, programs.check, deadline)
        return programs.read(result.output).strip()  # whatever the exit: `systemctl is-active` says "inactive" with exit 3

    def _run(self, cluster: Cluster, args: Any, argv: Sequence[str], deadline: float) -> injector.HostResult:
        means = self._with()
        return injector.run_on_host(
            cluster,
            namespace=namespaces.ensure_run(cluster, means.run_id, undoing=True),
            node=args.name,
            image=means.image,
            argv=argv,
            run_id=means.run_id,
            pull_secrets=means.pull_secrets,
            deadline=max(deadline, time.monotonic() + 1),
        )


class KubeletArgs(NodeArgs, frozen=True, kw_only=True):
    """Units of the run on the host: ``pending`` is about to restart or stop the kubelet, ``returning`` would start it.

    ``kubelet`` is the unit that runs the kubelet.
    """

    pending: str
    returning: str = ""
    kubelet: str = "kubelet.service"  # ledgers of earlier versions do not name it

    def __post_init__(self) -> None:
        for unit in (self.pending, self.returning):
            if unit and not _UNIT.fullmatch(unit):
                raise ValueError(f"host.kubelet: {unit!r} is no unit of a run")
        if not KUBELET_UNIT.fullmatch(self.kubelet):
            raise ValueError(f"host.kubelet: {self.kubelet!r} is no unit of a kubelet")
        if not self.pending:
            raise ValueError("host.kubelet: a unit is missing")


class HostKubelet(HostAction):
    """``host.kubelet``: call off what is about to happen to the kubelet, and start it. Restored is one that runs and goes on to."""

    name = "host.kubelet"
    Args = KubeletArgs

    def programs(self, args: KubeletArgs) -> Programs:
        """``systemctl``, for the timers of the units and the kubelet."""
        script = f"systemctl stop {args.pending}.timer; systemctl start {args.kubelet} || exit 1"
        if args.returning:
            script += f"; systemctl stop {args.returning}.timer; true"
        check = ("systemctl", "is-active", args.kubelet, f"{args.pending}.timer")
        return Programs(undo=("sh", "-c", script), check=check, expected="active\ninactive")


class RuntimeArgs(NodeArgs, frozen=True, kw_only=True):
    """``unit`` runs the container runtime; ``pending`` is the unit of the run that is about to restart it."""

    unit: str
    pending: str

    def __post_init__(self) -> None:
        if not _UNIT.fullmatch(self.pending):
            raise ValueError(f"host.runtime: {self.pending!r} is no unit of a run")
        if not RUNTIME_UNIT.fullmatch(self.unit):
            raise ValueError(f"host.runtime: {self.unit!r} is no unit of a container runtime")


class HostRuntime(HostAction):
    """``host.runtime``: call off the restart of the container runtime, and start it. Restored is an active one."""

    name = "host.runtime"
    Args = RuntimeArgs

    def programs(self, args: RuntimeArgs) -> Programs:
        """``systemctl``, for the timer and the runtime."""
        script = f"systemctl stop {args.pending}.timer; systemctl start {args.unit}"
        check = ("systemctl", "is-active", args.unit, f"{args.pending}.timer")
        return Programs(undo=("sh", "-c", script), check=check, expected="active\ninactive")


class NothingUndone(HostAction):
    """A fault that is not undone. That the host runs programs is verified."""

    def programs(self, args: NodeArgs) -> Programs:
        """Nothing to undo."""
        return Programs(check=("true",), expected="")


class HostSystemd(NothingUndone):
    """``host.systemd``: systemd has read its units again."""

    name = "host.systemd"
    Args = NodeArgs


class RebootArgs(NodeArgs, frozen=True, kw_only=True):
    """``pending`` is the unit of the run that is about to reboot the machine."""

    pending: str

    def __post_init__(self) -> None:
        if not _UNIT.fullmatch(self.pending):
            raise ValueError(f"host.reboot: {self.pending!r} is no unit of a run")


class HostReboot(HostAction):
    """``host.reboot``: call off a reboot that has not begun. One that has is not undone: that the machine runs programs is verified."""

    name = "host.reboot"
    Args = RebootArgs

    def programs(self, args: RebootArgs) -> Programs:
        """``systemctl``, for the timer, which no boot outlives."""
        undo, check = ("systemctl", "stop", f"{args.pending}.timer"), ("systemctl", "is-active", f"{args.pending}.timer")
        return Programs(undo=undo, check=check, expected="inactive")


class NetworkArgs(NodeArgs, frozen=True, kw_only=True):
    """``device`` is the network device that is changed; ``ending`` the unit of the run whose timer takes the change back by itself."""

    device: str
    ending: str

    def __post_init__(self) -> None:
        if not _UNIT.fullmatch(self.ending):
            raise ValueError(f"{self.ending!r} is no unit of a run")
        if not NETWORK_DEVICE.fullmatch(self.device):
            raise ValueError(f"{self.device!r} is no name of a network device")


class HostDelay(HostAction):
    """``host.delay``: take the run's queue off a network device, which gets the kernel's default again, and call off the timer."""

    name = "host.delay"
    Args = NetworkArgs

    def programs(self, args: NetworkArgs) -> Programs:
        """``tc``, for the queue of that handle and no other, and ``systemctl``, for the timer."""
        script = f"{' '.join(end_delay(args.device))}; systemctl stop {args.ending}.timer; true"
        check = f"tc qdisc show dev {args.device}; systemctl is-active {args.ending}.timer"
        return Programs(undo=("sh", "-c", script), check=("sh", "-c", check), expected="inactive", read=_delay_in)


def end_delay(device: str) -> tuple[str, ...]:
    """Takes the run's queue off a network device."""
    return ("tc", "qdisc", "del", "dev", device, "root", "handle", DELAY_HANDLE)


def _delay_in(output: str) -> str:
    """The run's queue in what ``tc`` shows, and what is no answer of ``tc``; a device that is gone delays nothing."""
    lines = [line.strip() for line in output.strip().splitlines()]
    known = [line for line in lines if line.startswith("qdisc ") or "Cannot find device" in line]
    return "\n".join(line for line in lines if line not in known or f" {DELAY_HANDLE} " in f"{line} ")


class HostLink(HostAction):
    """``host.link``: take the link up, and call off the timer that would. Restored is a link that is up."""

    name = "host.link"
    Args = NetworkArgs

    def programs(self, args: NetworkArgs) -> Programs:
        """``ip``, what the kernel says of the device, and ``systemctl``, for the timer."""
        script = f"ip link set dev {args.device} up || exit 1; systemctl stop {args.ending}.timer; true"
        check = f"{' '.join(link_state(args.device))}; systemctl is-active {args.ending}.timer"
        return Programs(undo=("sh", "-c", script), check=("sh", "-c", check), expected="up\ninactive")


def link_state(device: str) -> tuple[str, ...]:
    """Prints the state of a network device's link: ``up``, ``down``, or another word of the kernel's."""
    return ("cat", f"/sys/class/net/{device}/operstate")


class MockArgs(NodeArgs, frozen=True, kw_only=True):
    """``prior`` is what the mock overrode before, as its status prints it."""

    prior: str

    def __post_init__(self) -> None:
        if len(self.prior) > 10_000 or not all(map(_STATE_LINE.fullmatch, self.prior.split("\n") if self.prior else ())):
            raise ValueError("host.nvml-mock: prior: no state of the mock")


class HostMock(HostAction):
    """``host.nvml-mock``: take the mocked NVML's overrides away."""

    name = "host.nvml-mock"
    Args = MockArgs

    def programs(self, args: MockArgs) -> Programs:
        """The mock's own control program."""
        return Programs(undo=(MOCK, "reset"), check=STATE, expected=args.prior)


class DeviceArgs(NodeArgs, frozen=True, kw_only=True):
    """A GPU of the node, by UUID."""

    uuid: str

    def __post_init__(self) -> None:
        if not _UUID.fullmatch(self.uuid):
            raise ValueError(f"{self.uuid!r} is no UUID of a device")


class HostPersistence(HostAction):
    """``host.persistence``: switch a device's persistence mode on again, if the experiment has switched it off."""

    name = "host.persistence"
    Args = DeviceArgs

    def programs(self, args: DeviceArgs) -> Programs:
        """``nvidia-smi``, for the device and then for all: older ones list nothing while any device is lost."""
        query = ("--query-gpu=uuid,persistence_mode", "--format=csv,noheader")
        check = f"{nvidia_smi(*query, '-i', args.uuid)[-1]}; echo {_ALL}; {nvidia_smi(*query)[-1]}"
        return Programs(
            undo=nvidia_smi("-i", args.uuid, "-pm", "1"),
            check=("sh", "-c", check),
            expected="Enabled",
            ours="Disabled",
            read=lambda output: _mode_of(args.uuid, output),
        )


def _mode_of(uuid: str, output: str) -> str:
    """A device's mode. One that a whole list does not show is gone and has none to put back; a list with anything else says nothing."""
    rows = [_MODE.fullmatch(line.strip()) for line in output.strip().splitlines()]
    modes = {row[1]: row[2] for row in rows if row}
    listed = output.partition(f"{_ALL}\n")[2].strip().splitlines()
    whole = bool(listed) and all(_MODE.fullmatch(line.strip()) for line in listed)
    return modes.get(uuid, "Enabled" if whole else output)


class HostReset(NothingUndone):
    """``host.reset``: whether the device is back after its reset, samples show."""

    name = "host.reset"
    Args = DeviceArgs


class HostDevice(HostAction):
    """``host.device``: nothing to undo, and the device must be there: a reset that was to be refused was refused."""

    name = "host.device"
    Args = DeviceArgs

    def programs(self, args: DeviceArgs) -> Programs:
        """The vendor's list of devices."""
        return Programs(check=nvidia_smi("--query-gpu=uuid", "--format=csv,noheader", "-i", args.uuid), expected=args.uuid)


HOST_ACTIONS: tuple[type[HostAction], ...] = (
    HostKubelet,
    HostRuntime,
    HostSystemd,
    HostReboot,
    HostDelay,
    HostLink,
    HostMock,
    HostPersistence,
    HostReset,
    HostDevice,
)
