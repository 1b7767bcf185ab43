"""Faults of a machine below Kubernetes, through injector pods. What outlives the pod arms its own reversal on the host first."""

import re
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities import base
from chaos.activities.waiting import hold
from chaos.cluster.injector import FIND_KUBELET, FIND_RUNTIME, KUBELETS, POD_SECONDS, HostResult, run_on_host, units_of
from chaos.ledger.undos import host as host_undos
from chaos.ledger.undos.nodes import NodeArgs, identity
from fixtures.cluster.trouble import ApiTrouble
from fixtures.kubernetes.models import Json
from fixtures.model.demand.pod_devices import requested_devices
from fixtures.model.objects import addresses_of, boot_of, full_name, is_live, machine_of, name_of, provider_of
from fixtures.policy.model import MACHINE_MARKS

PROMPT = "--timer-property=AccuracySec=100ms"
"""Without it systemd lets a timer be up to a minute late (its default AccuracySec): the fault would come after its undo."""

MOST_DELAY = 2000
"""Milliseconds: a kubelet waits 10 seconds for an answer, and renews its lease every 10 of 40."""

MOST_PEERS, API_PORTS = 8, (443, 6443, 8443, 16443)
DEFAULT_QUEUES = ("mq", "fq", "fq_codel", "pfifo_fast", "noqueue")
"""Queues that a kernel gives a network device by itself, and gives it again."""

PRIORITIES = tuple("1222120011111111")
"""The kernel's own map of priorities to bands, which leaves the fourth to the filters."""

_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9:/._-]{0,200}")
"""What a node shows becomes an argument of a user's program: no option, nothing that a shell would read."""

_MANAGING_PAIR = re.compile(r"link \S+ lqpn \d+ (?:.* )?type (?:SMI|GSI|UD) .*\bcomm \[[^\]]+\]")
"""A queue pair of the kernel's for datagrams: for management, or IP over InfiniBand. Storage has connected ones."""

_PEER = re.compile(r"(?:\[::ffff:)?(\d+\.\d+\.\d+\.\d+)\]?:(\d+)", re.ASCII)


def restart_kubelet() -> dict[str, Any]:
    """Restart the node's kubelet."""
    kubelet, pending = kubelet_unit(), unit_name("kubelet-restart")
    return _restart("host.kubelet", kubelet, pending, kubelet_args(kubelet, pending))


def restart_runtime() -> dict[str, Any]:
    """Restart the node's container runtime. Its containers have processes of their own, which stay."""
    runtime, pending = _unit(FIND_RUNTIME, host_undos.RUNTIME_UNIT, "a container runtime"), unit_name("runtime-restart")
    return _restart(
        "host.runtime",
        runtime,
        pending,
        host_undos.RuntimeArgs(**identity(base.read_target(base.node_target())), unit=runtime, pending=pending),
    )


def reload_systemd() -> dict[str, Any]:
    """Let systemd read its units again, which sets the device rules of its control groups anew, those of containers too."""
    base.must_be_alone(base.node_target().name)
    with base.current().fault("host.systemd", NodeArgs(**identity(base.read_target(base.node_target())))) as fault:
        done = run(("systemctl", "daemon-reload"))
        fault.applied({"node": base.node_target().name, "said": done.output[-300:]})
    return base.target_record(base.node_target())


def reboot() -> dict[str, Any]:
    """Boot the node's machine anew: by the policy's command, else by a timer of its systemd, which outlives the pod that arms it.

    It has landed when the node shows another boot id, within the duration ``boot``: neither a timer that was armed nor a command that
    has ended well is a boot.
    """
    base.must_be_alone(base.node_target().name)
    node, pending = base.read_target(base.node_target()), unit_name("reboot")
    before = boot_of(node)
    if not before:
        raise ActivityFailed(f"node {base.node_target().name} shows no boot id, so nobody could tell that it was rebooted")
    command = reboot_command(node)
    with base.current().fault("host.reboot", host_undos.RebootArgs(**identity(node), pending=pending)) as fault:
        if command:
            _run_here(command)
        else:
            run(("systemd-run", f"--on-active={base.seconds('lead'):g}", PROMPT, f"--unit={pending}", "systemctl", "reboot"))
        if not base.poll(lambda: boot_of(base.read_target(base.node_target())) not in ("", before), base.seconds("boot")):
            raise ActivityFailed(f"node {base.node_target().name} shows no other boot id than {before} after {base.seconds('boot'):g} s")
        after = boot_of(base.read_target(base.node_target()))
        by = Path(command[0]).name if command else pending
        fault.applied({"node": base.node_target().name, "by": by, "boot": {"before": before, "after": after}})
    return {**base.target_record(base.node_target()), "before": before, "after": after}


def reboot_command(node: Json) -> list[str]:
    """The policy's command for this node's machine. Raises ActivityFailed where the node does not show what the command is to have."""
    words = list(base.current().reboot_command)
    shown = dict(zip(MACHINE_MARKS, (name_of(node), provider_of(node), machine_of(node)), strict=True))
    for mark, value in shown.items():
        if any(mark in word for word in words[1:]) and not _MACHINE.fullmatch(value):
            raise ActivityFailed(f"node {name_of(node)} shows no {mark[1:-1]} that a command may be given: {value[:80]!r}")
        words[1:] = [word.replace(mark, value) for word in words[1:]]
    return words


def _run_here(argv: Sequence[str]) -> None:
    """Run a program of the user's beside the suite. What it prints may hold secrets, and goes nowhere. Raises ActivityFailed."""
    nowhere, name = subprocess.DEVNULL, Path(argv[0]).name
    try:
        code = subprocess.run(argv, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=POD_SECONDS, check=False).returncode
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise ActivityFailed(f"{name}: {type(error).__name__}") from None  # its text has the arguments
    if code != 0:
        raise ActivityFailed(f"{name}: exit code {code}; expected 0")


def delay_api(milliseconds: int, outage: str) -> dict[str, Any]:
    """Delay what the node sends to the API servers that its kubelet is connected to, for the duration ``outage``, which a timer ends.

    A queue of the kernel does it (netem), beside the one for everything else: the control plane itself is not touched. Raises
    ActivityFailed where the kubelet reaches its API servers through a program on its own machine, or by IPv6, and where somebody has
    set the queue of the network device.
    """
    base.must_be_alone(base.node_target().name)
    if not 0 < milliseconds <= MOST_DELAY:
        raise ActivityFailed(f"a delay of {milliseconds} ms is none that a kubelet should stand; expected up to {MOST_DELAY}")
    peers = api_peers(run(("ss", "-Htnp", "state", "established")).output)
    node = base.node_target().name
    if not 0 < len(peers) <= MOST_PEERS:
        found = ", ".join(f"{address}:{port}" for address, port in peers) or "none"
        raise ActivityFailed(f"expected up to {MOST_PEERS} API servers that the kubelet of {node} is connected to, found {found}")
    routes = (re.search(r" dev (\S+)", run(("ip", "-o", "route", "get", address)).output) for address, _ in peers)
    devices = sorted({route[1] if route else "" for route in routes})
    device = devices[0]
    if len(devices) > 1 or not host_undos.NETWORK_DEVICE.fullmatch(device) or device == "lo":
        raise ActivityFailed(f"expected one network device on the way to the API servers, found {', '.join(devices)[:200] or 'none'}")
    shown = run(("tc", "qdisc", "show", "dev", device, "root")).output.split()
    if shown[:1] != ["qdisc"] or shown[1:2] not in [[kind] for kind in DEFAULT_QUEUES]:
        raise ActivityFailed(f"somebody has set the queue of {device}, which would not be put back: {' '.join(shown)[:200]}")
    ending = unit_name("delay-end")
    with base.current().fault(
        "host.delay", host_undos.NetworkArgs(**identity(base.read_target(base.node_target())), device=device, ending=ending)
    ) as fault:
        run(("systemd-run", f"--on-active={base.seconds(outage):g}", PROMPT, f"--unit={ending}", *host_undos.end_delay(device)))
        run(_while_armed(ending, *_delaying(device, peers, milliseconds)))
        fault.applied({"node": node, "device": device, "milliseconds": milliseconds, "servers": [address for address, _ in peers]})
    return {**base.target_record(base.node_target()), "device": device, "milliseconds": milliseconds}


def flap_link(times: int, down: str, outage: str) -> dict[str, Any]:
    """Take the link of one RDMA device down and up again, several times, each for the duration ``down``.

    A timer takes it up after ``outage`` whatever happens. It has landed when the kernel says that the link is down. Raises
    ActivityFailed unless there is an RDMA device whose network device is up, carries no default route, is part of no bond, and is
    used by nobody.
    """
    base.must_be_alone(base.node_target().name)
    routes = run(("ip", "-o", "route", "show", "default")).output
    links = rdma_devices(run(("rdma", "link", "show")).output)
    found = sorted(set(links) - set(re.findall(r" dev (\S+)", routes)))
    if not found or not routes.strip():
        raise ActivityFailed(f"expected an RDMA device on {base.node_target().name} that is up and carries no default route, found none")
    device = found[-1]
    if " master " in (shown := run(("ip", "-o", "link", "show", "dev", device)).output):
        raise ActivityFailed(f"{device} is part of another network device: {' '.join(shown.split())[:200]}")
    if users := _users_of_link(device, links[device]):
        raise ActivityFailed(f"the link of {device} is in use and is left alone: {'; '.join(users)[:400]}")
    ending, link = unit_name("link-up"), ("ip", "link", "set", "dev", device)
    with base.current().fault(
        "host.link", host_undos.NetworkArgs(**identity(base.read_target(base.node_target())), device=device, ending=ending)
    ) as fault:
        run(("systemd-run", f"--on-active={base.seconds(outage):g}", PROMPT, f"--unit={ending}", *link, "up"))
        for turn in range(times):
            run(_while_armed(ending, (*link, "down")))
            if turn == 0:
                if (state := run(host_undos.link_state(device)).output.strip()) != "down":
                    raise ActivityFailed(f"the link of {device} was taken down, and the kernel says that it is {state[:80] or 'nothing'}")
                fault.applied({"node": base.node_target().name, "device": device, "times": times})
            hold(down)
            run((*link, "up"))
            hold(down)
    return {**base.target_record(base.node_target()), "device": device, "times": times}


def rdma_devices(links: str) -> dict[str, str]:
    """RDMA devices whose link is up, by their network devices, from what ``rdma link show`` prints."""
    found = (re.match(r"link ([\w.-]+)/\d+ .*\bstate ACTIVE .*\bnetdev (\S+)", line.strip()) for line in links.splitlines())
    return {match[2]: match[1] for match in found if match and host_undos.NETWORK_DEVICE.fullmatch(match[2])}


def _users_of_link(device: str, rdma_device: str) -> list[str]:
    """Who would notice that a link is down: the node itself, pods that were given the fabric, connections, RDMA queue pairs."""
    acting, facts, node = base.current(), base.plan_facts(), base.read_target(base.node_target())
    query = {"fieldSelector": f"spec.nodeName={name_of(node)}"}
    pods = base.accepted(acting.cluster.request("GET", acting.cluster.path("pods"), query=query), "list pods").json()["items"]
    holders = [full_name(pod) for pod in pods if is_live(pod) and requested_devices(pod, facts.is_fabric)]
    addresses = addresses_in(run(("ip", "-o", "address", "show", "dev", device)).output)
    sockets = connections_of(addresses, run(("ss", "-Htn", "state", "established")).output)
    pairs = queue_pairs_in_use(run(("rdma", "resource", "show", "qp", "link", rdma_device)).output)
    return [
        *(f"{address} is an address of the node" for address in sorted(addresses & addresses_of(node))),
        *(f"pod {name} has the fabric" for name in holders),
        *(f"a connection to {peer}" for peer in sockets),
        *pairs,
    ]


def addresses_in(shown: str) -> set[str]:
    """IP addresses by what ``ip -o address show`` prints."""
    return set(re.findall(r"\binet6? ([0-9a-fA-F.:]+)", shown))


def connections_of(addresses: Collection[str], sockets: str) -> list[str]:
    """Peers of the TCP connections from these addresses, the kernel's own among them, by what ``ss -Htn state established`` prints."""
    found = (line.split()[2:4] for line in sockets.splitlines())
    return sorted({ends[1] for ends in found if len(ends) == 2 and _host_in(ends[0]) in addresses})


def _host_in(end: str) -> str:
    """The address of one end of a connection, without port, brackets, device, and the prefix of IPv4 in IPv6."""
    return end.rpartition(":")[0].strip("[]").partition("%")[0].removeprefix("::ffff:")


def queue_pairs_in_use(pairs: str) -> list[str]:
    """Queue pairs of somebody's, by what ``rdma resource show qp`` prints: all but those by which a kernel manages the device."""
    return [line.strip() for line in pairs.splitlines() if line.strip() and not _MANAGING_PAIR.match(line.strip())]


def api_peers(sockets: str) -> list[tuple[str, int]]:
    """Where kubelets are connected to ports of API servers on other machines, by what ``ss -Htnp`` prints."""
    found = set()
    for line in sockets.splitlines():
        words = line.split()
        if len(words) < 5 or not any(f'"{name}"' in words[4] for name in KUBELETS):
            continue
        own, peer = map(_PEER.fullmatch, words[2:4])
        if peer and int(peer[2]) in API_PORTS and not peer[1].startswith("127.") and not (own and own[1] == peer[1]):
            found.add((peer[1], int(peer[2])))
    return sorted(found)


def _while_armed(unit: str, *commands: tuple[str, ...]) -> tuple[str, ...]:
    """The commands, which are refused once the unit's timer has gone off: nothing would take back then what they do."""
    return ("sh", "-c", " && ".join(map(" ".join, [("systemctl", "is-active", f"{unit}.timer"), *commands])))


def _delaying(device: str, peers: Sequence[tuple[str, int]], milliseconds: int) -> list[tuple[str, ...]]:
    """A queue with a fourth band that delays, and filters that send there what goes to the peers and nothing else."""
    band, add = f"{host_undos.DELAY_HANDLE}4", ("tc", "qdisc", "add", "dev", device)
    send = ("tc", "filter", "add", "dev", device, "parent", host_undos.DELAY_HANDLE, "protocol", "ip", "u32")
    return [
        (*add, "root", "handle", host_undos.DELAY_HANDLE, "prio", "bands", "4", "priomap", *PRIORITIES),
        (*add, "parent", band, "netem", "delay", f"{milliseconds}ms"),
        *((*send, "match", "ip", "dst", f"{one}/32", "match", "ip", "dport", str(port), "0xffff", "flowid", band) for one, port in peers),
    ]


def _restart(action: str, unit: str, pending: str, arguments: NodeArgs) -> dict[str, Any]:
    """Restart a unit by a transient one, which does not depend on the pod that asks for it.

    It has landed when systemd says that the unit was started since: a timer that was armed is no restart.
    """
    base.must_be_alone(base.node_target().name)
    started = ("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", unit)
    before = run(started).output.strip()
    with base.current().fault(action, arguments) as fault:
        done = run(("systemd-run", f"--on-active={base.seconds('lead'):g}", PROMPT, f"--unit={pending}", "systemctl", "restart", unit))
        if not base.poll(lambda: run(started).output.strip() not in ("", before), POD_SECONDS):
            raise ActivityFailed(f"{unit} of {base.node_target().name} was not restarted within {POD_SECONDS} s ({before})")
        fault.applied({"node": base.node_target().name, "restarted": unit, "unit": pending, "said": done.output[-300:]})
    return {**base.target_record(base.node_target()), "restarted": unit, "unit": pending}


def stop_kubelet(outage: str) -> dict[str, Any]:
    """Stop the node's kubelet. Its start, after the duration of that name, is armed on the host and seen to be armed before."""
    base.must_be_alone(base.node_target().name)
    length, lead = base.seconds(outage), base.seconds("lead")
    kubelet, start, stop = kubelet_unit(), unit_name("kubelet-start"), unit_name("kubelet-stop")
    script = (
        f"systemd-run --on-active={lead + length:g} {PROMPT} --unit={start} systemctl start {kubelet} && "
        f"systemctl is-active {start}.timer && "
        f"systemd-run --on-active={lead:g} {PROMPT} --unit={stop} systemctl stop {kubelet}"
    )
    with base.current().fault("host.kubelet", kubelet_args(kubelet, stop, start)) as fault:
        done = run(("sh", "-c", script))
        fault.applied(
            {"node": base.node_target().name, "kubelet": kubelet, "starts_after": length, "unit": start, "said": done.output[-300:]}
        )
    return {**base.target_record(base.node_target()), "kubelet": kubelet, "starts_after": length}


def kubelet_unit() -> str:
    """The unit of systemd that runs the kubelet of the plan's node. Raises ActivityFailed unless there is one."""
    return _unit(FIND_KUBELET, host_undos.KUBELET_UNIT, "a kubelet")


def _unit(find: Sequence[str], known: re.Pattern[str], program: str) -> str:
    """The unit of systemd on the plan's node that runs a program, by what runs. Raises ActivityFailed unless there is one of a known name.

    Where no injector pod runs, nothing could be read back: this finds it out before anything is armed.
    """
    node = base.node_target().name
    reported = run(find, good=(0, 1)).output
    found = units_of(reported)
    if len(found) != 1:
        what = ", ".join(found) or f"none: {' '.join(reported.split())[:200] or f'no process has the name of {program}'}"
        raise ActivityFailed(f"expected one unit of systemd that runs {program} on {node}, found {what}")
    if not known.fullmatch(found[0]):
        raise ActivityFailed(f"{found[0]} runs {program} on {node}, and nothing in its name shows that: it is left alone")
    return found[0]


def kubelet_args(kubelet: str, pending: str, returning: str = "") -> host_undos.KubeletArgs:
    """Arguments of the kubelet's undo on the plan's node.

    ``pending`` is the unit whose timer is about to stop it, ``returning`` the one whose timer would start it again.
    """
    return host_undos.KubeletArgs(**identity(base.read_target(base.node_target())), kubelet=kubelet, pending=pending, returning=returning)


def run(argv: Sequence[str], *, good: Sequence[int] = (0,), node: str = "") -> HostResult:
    """Run a program on the plan's node, or on another one of the plan's.

    Raises ActivityFailed when it could not be run, or ended with none of the ``good`` codes.
    """
    acting = base.current()
    node = node or base.node_target().name
    try:
        result = run_on_host(
            acting.cluster,
            namespace=base.host_namespace(),
            node=node,
            image=base.plan_facts().injector_image,
            argv=argv,
            run_id=acting.plan.run_id,
            pull_secrets=base.plan_facts().pull_secrets,
            deadline=time.monotonic() + POD_SECONDS,  # a shorter wait would leave a program running that nobody asks about
        )
    except ApiTrouble as trouble:
        raise ActivityFailed(f"{argv[0]} on {node}: {trouble.message}") from trouble
    if good and result.exit_code not in good:
        raise ActivityFailed(f"{' '.join(argv)[:400]} on {node}: exit {result.exit_code}: {result.output.strip()[-400:]}")
    return result


def unit_name(what: str) -> str:
    """A unit of this run and experiment, so that two never share one."""
    plan = base.current().plan
    return f"gpu-conformance-{plan.run_id}-{plan.experiment.lower()}-{what}"
