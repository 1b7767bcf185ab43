"""Every program that experiments run on a host, in a real shell: what it does, and how answers of vendors' tools are read.

The answers are what the tools printed on real machines: refusals in logs of MIG managers and of cloud users, lists of hosts with a lost
device, systemd's own words.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaoslib.exceptions import ActivityFailed

from chaos.act.canary_pods import HOLD, worker_script
from chaos.act.context import current
from chaos.activities import base, devices, hosts, ranks, telemetry
from chaos.cluster.injector import FIND_KUBELET, KUBELETS, HostResult, nvidia_smi
from chaos.ledger.undos.host import DeviceArgs, HostDelay, HostKubelet, HostMock, HostPersistence, KubeletArgs, MockArgs, NetworkArgs
from chaos.model.plan import Target
from chaos.observe.signals.pace import beat_in, uuids_in
from fixtures.cluster.client import Cluster
from fixtures.model.devices.gpu_names import kernel_address
from fixtures.verdict.record import TargetKind
from tests.chaos.hosts.throw_away_root import Root
from tests.chaos.ledger.simulated_cluster import RUN, acting, ledger, world
from tests.chaos.tables import table
from tests.samples import sample

pytestmark = pytest.mark.test_all

HOSTS = table("hosts/answers")
IN_USE, USED, NOT_ALONE, RESET, OFF, NO_HANDLE = HOSTS["answers"].values()
UUID, LOST = "GPU-31b7f2c0-55c3-0a4b-9f0e-6a1f5b7c8d9e", "GPU-8dbb5e94-1c6f-7d68-2a9d-0e3c3d6d4f1a"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path / "root")


@pytest.fixture
def live(root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Activities on a live plan whose one node is the throw-away root."""

    def run_on_host(*_: Any, argv: Sequence[str], **__: Any) -> HostResult:
        return root.run(argv)

    monkeypatch.setattr(hosts, "run_on_host", run_on_host)
    monkeypatch.setattr(devices, "worker_device", lambda: UUID)
    with world(tmp_path) as (cluster, _):
        made = acting(tmp_path, cluster, ledger(tmp_path))
        facts = {"uuid": UUID, "index": 1, "pci": "00000000:CB:00.0"}
        target = Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1", facts=facts)
        seconds = {"outage": 60.0, "clients": 3.0, "sample": 0.05, "lead": 15.0}
        made.plan = msgspec.structs.replace(made.plan, targets=(target,), seconds=seconds, facts={"injector_image": "i"})
        with made.as_current():
            yield cluster


@pytest.fixture
def cordoned(live: Cluster) -> None:
    assert live.patch("nodes", "gpu-1", {"spec": {"unschedulable": True}}).ok


def calls_of(root: Root, *programs: str) -> list[str]:
    return [call for call in root.calls if call.split()[0].rpartition("/")[2] in programs]


# -- agents of the node ---------------------------------------------------------------------------------------------------


def plan_agent(component: str, uid: str = "uid-gpu-1") -> None:
    """Let the plan name the agent, and the node by a UID."""
    plan = current().plan
    agent = {"component": component, "key": "apps/daemonsets", "namespace": "gpu-operator", "name": "plugin", "uid": "uid-plugin"}
    facts = {**plan.facts, "components": {component: {**agent, "selector": "app=plugin"}}}
    current().plan = msgspec.structs.replace(plan, targets=(msgspec.structs.replace(plan.targets[0], uid=uid),), facts=facts)


@pytest.mark.parametrize("component", ["device-plugin", "host-engine"])
def test_no_agent_is_restarted_on_a_node_that_was_replaced(component: str, live: Cluster) -> None:
    plan_agent(component, uid="uid-before")
    with pytest.raises(ActivityFailed, match="was replaced since it was planned"):
        devices.restart_agent(component)


def test_a_template_that_somebody_else_changed_is_left(live: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    template = {"metadata": {"labels": {"app": "plugin"}}, "spec": {"containers": [{"name": "plugin", "image": "i"}]}}
    owner = {"metadata": {"name": "plugin", "uid": "uid-plugin"}, "spec": {"template": template}}

    def change(key: str, obj: Any, patch: Any, same: Callable[[Any], bool]) -> None:
        annotated = {**template, "metadata": {"annotations": {"restartedAt": "now"}}}
        raise ActivityFailed(f"{same(owner)} {same({**owner, 'spec': {'template': annotated}})}")

    monkeypatch.setattr(devices, "read", lambda *_: owner)
    monkeypatch.setattr(base, "change", change)
    plan_agent("device-plugin")
    current().plan = msgspec.structs.replace(current().plan, target_kind=TargetKind.SIMULATED)
    with pytest.raises(ActivityFailed, match="True False"):
        devices.configure_plugin("X", "1")


# -- the kubelet's unit ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("groups", "unit"), HOSTS["units"].values(), ids=HOSTS["units"])
def test_the_unit_that_runs_a_kubelet_is_restarted(groups: str, unit: str, root: Root, live: Cluster) -> None:
    root.program("pgrep", "812\n4711", ("", 1))
    root.file("/proc/812/cgroup", f"{groups}\n")
    root.file("/proc/4711/cgroup", "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope/system.slice/kubelet.service\n")
    since = "ActiveEnterTimestampMonotonic="
    root.program("systemctl", f"{since}5141718", f"{since}5141718", f"{since}9223372")
    root.program("systemd-run", "Running timer as unit: x.timer\nWill run service as unit: x.service")
    assert hosts.restart_kubelet()["restarted"] == unit
    (armed,) = calls_of(root, "systemd-run")
    assert armed.endswith(f"-a1-kubelet-restart systemctl restart {unit}")
    assert len(calls_of(root, "systemctl")) == 3  # before, after a restart that was not through, after it


@pytest.mark.parametrize(("groups", "why"), HOSTS["left alone"])
def test_a_host_without_one_unit_of_a_kubelet_is_left_alone(groups: list[str], why: str, root: Root, live: Cluster) -> None:
    root.program("pgrep", ("\n".join(str(number) for number in range(len(groups))), 0 if groups else 1), ("", 1))
    for number, text in enumerate(groups):
        root.file(f"/proc/{number}/cgroup", f"{text}\n")
    with pytest.raises(ActivityFailed, match=why):
        hosts.restart_kubelet()
    assert not calls_of(root, "systemd-run", "systemctl")


@pytest.mark.parametrize(("groups", "unit", "why"), HOSTS["runtimes"])
def test_a_container_runtime_is_restarted_by_its_own_unit_or_not_at_all(
    groups: list[str], unit: str, why: str, root: Root, live: Cluster
) -> None:
    root.program("pgrep", ("\n".join(str(number) for number in range(len(groups))), 0 if groups else 1), ("", 1))
    for number, text in enumerate(groups):
        root.file(f"/proc/{number}/cgroup", f"{text}\n")
    root.program("systemctl", "ActiveEnterTimestampMonotonic=5141718", "ActiveEnterTimestampMonotonic=9223372")
    root.program("systemd-run", "Running timer as unit: x.timer")
    if why:
        with pytest.raises(ActivityFailed, match=why):
            hosts.restart_runtime()
        assert not calls_of(root, "systemd-run", "systemctl")
        return
    assert hosts.restart_runtime()["restarted"] == unit
    (armed,) = calls_of(root, "systemd-run")
    assert armed.endswith(f"-a1-runtime-restart systemctl restart {unit}")


def test_a_reboot_has_landed_when_the_node_shows_another_boot_id(root: Root, live: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    root.program("systemd-run", "Running timer as unit: x.timer")
    boots = iter(["a", "a", "", "a", "b", "b"])
    monkeypatch.setattr(hosts, "boot_of", lambda node: next(boots))
    current().plan.seconds["boot"] = 20.0
    assert hosts.reboot()["after"] == "b"
    (armed,) = calls_of(root, "systemd-run")
    assert armed.endswith("-a1-reboot systemctl reboot")


@pytest.mark.parametrize(("boots", "why", "armed"), [(["", ""], "shows no boot id", 0), (["a"] * 99, "shows no other boot id than a", 1)])
def test_a_reboot_that_nobody_can_tell_is_none(
    boots: list[str], why: str, armed: int, root: Root, live: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.program("systemd-run", "Running timer as unit: x.timer")
    shown = iter(boots)
    monkeypatch.setattr(hosts, "boot_of", lambda node: next(shown))
    current().plan.seconds["boot"] = 0.2
    with pytest.raises(ActivityFailed, match=why):
        hosts.reboot()
    assert len(calls_of(root, "systemd-run")) == armed


LIVE = TargetKind.LIVE


@pytest.mark.parametrize(
    ("kind", "words", "shown", "why", "ran"),
    [
        pytest.param(LIVE, ["{systemUUID}", "at {node}"], {"systemUUID": "4C4C-7"}, "", "4C4C-7 at gpu-1", id="by its UUID"),
        pytest.param(LIVE, ["{providerID}"], {"providerID": "aws:///eu-1a/i-0f"}, "", "aws:///eu-1a/i-0f", id="by its cloud"),
        pytest.param(
            LIVE, ["{systemUUID}"], {"systemUUID": "-rf $(x)"}, "shows no systemUUID that a command may be given", "", id="hostile"
        ),
        pytest.param(LIVE, ["{providerID}"], {}, "shows no providerID", "", id="not shown"),
        pytest.param(LIVE, ["{node}", "fails"], {}, "power-cycle: exit code 3; expected 0", "gpu-1 fails", id="a command that fails"),
        pytest.param(TargetKind.SIMULATED, ["{node}"], {}, "", "", id="a simulated machine is left to its own systemd"),
        pytest.param(TargetKind.LOCAL, ["{node}"], {}, "", "", id="one of the local control plane too"),
    ],
)
def test_the_policys_command_reboots_the_machine_that_the_node_shows(
    kind: TargetKind,
    words: list[str],
    shown: dict[str, str],
    why: str,
    ran: str,
    root: Root,
    live: Cluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root.program("systemd-run", "Running timer as unit: x.timer")
    program, log = root.folder / "power-cycle", root.folder / "log"
    program.write_text(f'#!/bin/sh\necho "$@" > {log}\necho secret\ncase "$*" in *fails*) exit 3;; esac\n')
    program.chmod(0o755)
    acting = current()
    acting.plan = msgspec.structs.replace(acting.plan, target_kind=kind, seconds={**acting.plan.seconds, "boot": 20.0})
    acting._terms = msgspec.structs.replace(acting._terms, reboot_command=(str(program), *words))
    node = base.read_target(base.node_target())
    node["spec"]["providerID"] = shown.get("providerID", "")
    node.setdefault("status", {}).setdefault("nodeInfo", {})["systemUUID"] = shown.get("systemUUID", "")
    monkeypatch.setattr(base, "read_target", lambda target: node)
    boots = iter(["a", "a", "b", "b"])
    monkeypatch.setattr(hosts, "boot_of", lambda node: next(boots))
    if why:
        with pytest.raises(ActivityFailed, match=re.escape(why)) as failed:
            hosts.reboot()
        assert "secret" not in str(failed.value)
    else:
        assert hosts.reboot()["after"] == "b"
    assert (log.read_text().strip() if log.exists() else "") == ran
    assert len(calls_of(root, "systemd-run")) == (kind is not LIVE)


PEER = '0      0      10.0.0.7:41234   10.0.0.1:6443   users:(("kubelet",pid=812,fd=12))'
ROUTE = "10.0.0.1 dev eth0 src 10.0.0.7 uid 0 \\    cache"


def test_what_goes_to_the_api_server_is_delayed_and_nothing_else(root: Root, live: Cluster) -> None:
    root.program("ss", PEER)
    root.program("ip", ROUTE)
    root.program("tc", "qdisc mq 0: root", "")
    root.program("systemd-run", "Running timer as unit: x.timer")
    root.program("systemctl", "active")
    assert hosts.delay_api(800, "outage")["device"] == "eth0"
    armed, *made = calls_of(root, "systemd-run", "tc")[1:]
    assert "--on-active=60" in armed
    assert armed.endswith("-a1-delay-end tc qdisc del dev eth0 root handle 677:")
    assert [call.removeprefix("tc ") for call in made] == HOSTS["delaying"]


@pytest.mark.parametrize(("sockets", "route", "queue", "why"), HOSTS["no delay"].values(), ids=HOSTS["no delay"])
def test_a_way_to_the_api_server_that_is_not_understood_is_left_alone(
    sockets: str, route: str, queue: str, why: str, root: Root, live: Cluster
) -> None:
    root.program("ss", sockets or PEER)
    root.program("ip", route or ROUTE)
    root.program("tc", queue or "qdisc fq_codel 0: root refcnt 2")
    with pytest.raises(ActivityFailed, match=why):
        hosts.delay_api(800, "outage")
    assert not calls_of(root, "systemd-run")
    assert len(calls_of(root, "tc")) <= 1


@pytest.mark.parametrize(("shown", "left"), HOSTS["queues"])
def test_a_delay_is_gone_when_the_runs_queue_is(shown: str, left: str) -> None:
    programs = HostDelay().programs(NetworkArgs(name="gpu-1", uid="u", device="eth0", ending="gpu-conformance-x-a1-delay-end"))
    assert programs.read(shown) == left
    assert programs.expected == "inactive"


def test_nothing_is_changed_once_the_timer_that_would_take_it_back_has_gone_off(root: Root, live: Cluster) -> None:
    root.program("ss", PEER)
    root.program("rdma", HOSTS["rdma links"], "")
    root.program("ip", ROUTE, DEFAULT, "4: ens2np0: <UP> mtu 9000 qdisc mq state UP", "", "")
    root.program("tc", "qdisc mq 0: root", "")
    root.program("systemd-run", "Running timer as unit: x.timer")
    root.program("systemctl", ("inactive", 3))
    with pytest.raises(ActivityFailed, match="exit 3: inactive"):
        hosts.delay_api(800, "outage")
    with pytest.raises(ActivityFailed, match="exit 3: inactive"):
        hosts.flap_link(1, "down", "outage")
    assert not [call for call in calls_of(root, "tc", "ip") if " add " in call or call.endswith(" down")]


DEFAULT = "default via 10.0.0.254 dev eth0 proto dhcp"


def test_a_link_is_taken_down_behind_a_timer_that_takes_it_up(root: Root, live: Cluster) -> None:
    link_of(root)
    assert hosts.flap_link(2, "down", "outage")["device"] == "ens2np0"
    armed, *made = calls_of(root, "systemd-run", "ip")[3:]
    assert armed.endswith("-a1-link-up ip link set dev ens2np0 up")
    assert made == [f"ip link set dev ens2np0 {state}" for state in ("down", "up", "down", "up")]


def link_of(root: Root, addresses: str = "", sockets: str = "", pairs: str = "") -> None:
    """A machine with an RDMA link that carries no default route, and what is seen of it."""
    root.program("rdma", HOSTS["rdma links"], pairs)
    root.program("ip", DEFAULT, "4: ens2np0: <UP> mtu 9000 qdisc mq state UP", addresses, "")
    root.program("ss", sockets)
    root.program("systemd-run", "Running timer as unit: x.timer")
    root.program("systemctl", "active")
    root.file("/sys/class/net/ens2np0/operstate", "down\n")
    current().plan.seconds["down"] = 0.05


@pytest.mark.parametrize(("addresses", "sockets", "pairs", "why"), HOSTS["links in use"].values(), ids=HOSTS["links in use"])
def test_a_link_that_somebody_uses_is_left_alone(
    addresses: str, sockets: str, pairs: str, why: str, root: Root, live: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    link_of(root, addresses, sockets, pairs)
    node = base.read_target(base.node_target())
    node.setdefault("status", {})["addresses"] = [{"type": "InternalIP", "address": "10.0.0.7"}]
    monkeypatch.setattr(base, "read_target", lambda target: node)
    with pytest.raises(ActivityFailed, match=f"in use and is left alone: .*{re.escape(why)}"):
        hosts.flap_link(1, "down", "outage")
    assert not calls_of(root, "systemd-run")


@pytest.mark.parametrize(("addresses", "sockets", "pairs"), HOSTS["links in nobodys use"])
def test_a_link_that_nobody_uses_may_flap(addresses: str, sockets: str, pairs: str, root: Root, live: Cluster) -> None:
    link_of(root, addresses, sockets, pairs)
    assert hosts.flap_link(1, "down", "outage")["device"] == "ens2np0"


def test_the_link_of_a_node_whose_pods_were_given_the_fabric_is_left_alone(root: Root, live: Cluster) -> None:
    container = {"name": "rank", "image": "i", "resources": {"limits": {"rdma/hca_shared_devices_a": "1"}}}
    pod = {"metadata": {"name": "rank-0"}, "spec": {"nodeName": "gpu-1", "containers": [container]}}
    assert live.create("pods", pod, namespace="default").ok
    link_of(root)
    with pytest.raises(ActivityFailed, match="pod default/rank-0 has the fabric"):
        hosts.flap_link(1, "down", "outage")


@pytest.mark.parametrize(("links", "route", "link", "why"), HOSTS["no link"].values(), ids=HOSTS["no link"])
def test_a_link_that_may_carry_the_node_is_left_alone(links: str, route: str, link: str, why: str, root: Root, live: Cluster) -> None:
    root.program("rdma", links)
    root.program("ip", route, link)
    with pytest.raises(ActivityFailed, match=why):
        hosts.flap_link(1, "down", "outage")
    assert not calls_of(root, "systemd-run")


@pytest.mark.parametrize("name", KUBELETS)
def test_a_process_of_that_name_is_found(name: str, tmp_path: Path) -> None:
    """By the real ``pgrep``: a script that sleeps, which never ran a kubelet."""
    program = tmp_path / name
    program.write_text("#!/bin/sh\nread x\n")
    program.chmod(0o755)
    with subprocess.Popen([str(program)], stdin=subprocess.PIPE) as process:
        asked = [word.replace("$name", name) for word in FIND_KUBELET[-1].partition("$(")[2].partition(")")[0].split()]
        found = subprocess.run([*asked, "-P", str(os.getpid())], capture_output=True, text=True, check=False).stdout.split()
        assert process.stdin is not None
        process.stdin.close()
    assert found == [str(process.pid)]


def test_a_kubelets_start_is_armed_before_its_stop_and_both_are_called_off(root: Root, live: Cluster) -> None:
    root.program("pgrep", "812", ("", 1))
    root.file("/proc/812/cgroup", "0::/system.slice/k3s-agent.service\n")
    root.program("systemctl", "active")
    root.program("systemd-run", "Running timer as unit: x.timer")
    hosts.stop_kubelet("outage")
    start, asked, stop = calls_of(root, "systemd-run", "systemctl")
    unit = f"gpu-conformance-{RUN}-a1-kubelet-"
    assert start == f"systemd-run --on-active=75 {hosts.PROMPT} --unit={unit}start systemctl start k3s-agent.service"
    assert asked == f"systemctl is-active {unit}start.timer"
    assert stop == f"systemd-run --on-active=15 {hosts.PROMPT} --unit={unit}stop systemctl stop k3s-agent.service"

    args = KubeletArgs(name="n", uid="u", machine="m", pending=f"{unit}stop", returning=f"{unit}start", kubelet="k3s-agent.service")
    undo = HostKubelet().programs(args)
    assert root.run(undo.undo).exit_code == 0
    assert calls_of(root, "systemctl")[1:] == [
        f"systemctl stop {unit}stop.timer",
        "systemctl start k3s-agent.service",
        f"systemctl stop {unit}start.timer",
    ]
    root.program("systemctl", ("active\ninactive", 3))
    assert root.run(undo.check).output.strip() == undo.expected


def test_a_kubelet_whose_start_could_not_be_armed_is_not_stopped(root: Root, live: Cluster) -> None:
    root.program("pgrep", "812", ("", 1))
    root.file("/proc/812/cgroup", "0::/system.slice/kubelet.service\n")
    root.program("systemctl", ("inactive", 3))
    root.program("systemd-run", "Running timer as unit: x.timer")
    with pytest.raises(ActivityFailed, match="exit 3: Running timer"):
        hosts.stop_kubelet("outage")
    assert len(calls_of(root, "systemd-run")) == 1


@pytest.mark.parametrize("unit", ["sshd.service", "kubelet.service; reboot", "kubelet", "../kubelet.service", "kubelet.service\n"])
def test_an_entry_starts_no_other_unit(unit: str) -> None:
    with pytest.raises(ValueError, match="is no unit of a kubelet"):
        KubeletArgs(name="n", uid="u", machine="m", pending=f"gpu-conformance-{RUN}-n1-kubelet-restart", kubelet=unit)


# -- nvidia-smi ------------------------------------------------------------------------------------------------------------


def test_nvidia_smi_is_found_where_the_platform_puts_it(root: Root) -> None:
    root.program("nvidia-smi", "on the path")
    reported = [root.run(nvidia_smi("-L")).output]
    root.program("/home/kubernetes/bin/nvidia/bin/nvidia-smi", "GKE's")
    reported.append(root.run(nvidia_smi("-L")).output)
    root.driver(("of the driver's container", 9))
    inside = root.run(nvidia_smi("-i", "GPU-1; reboot", "-pm", "1"))
    assert [*reported, inside.output] == ["on the path\n", "GKE's\n", "of the driver's container\n"]
    assert inside.exit_code == 9
    assert root.calls[-1] == "/run/nvidia/driver/usr/bin/nvidia-smi -i GPU-1; reboot -pm 1"


def test_a_gpu_is_reset_beside_a_lost_one(root: Root, cordoned: None) -> None:
    root.program(
        "nvidia-smi",
        f"{UUID}, Enabled",  # asked for by name
        (NO_HANDLE, 255),  # all of them, by an older release
        OFF,
        "4242",  # a process that is about to end
        "No running processes found",
        (IN_USE, 255),  # an agent that is about to end
        RESET,
    )
    devices.reset_gpu()
    asked = [call.partition(" ")[2] for call in root.calls]
    query, apps = "--query-gpu=uuid,persistence_mode --format=csv,noheader", "--query-compute-apps=pid --format=csv,noheader"
    reset = f"--gpu-reset -i {UUID}"
    assert asked == [f"{query} -i {UUID}", query, f"-i {UUID} -pm 0", *[f"{apps} -i {UUID}"] * 2, reset, reset]


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([f"{UUID}, Disabled", f"{UUID}, Disabled", "", (NOT_ALONE, 255)], "is not reset without its peers"),
        ([f"{UUID}, Disabled", f"{UUID}, Disabled", NO_HANDLE], "nobody knows which processes hold the device"),
        ([(NO_HANDLE, 255)], "nobody knows the persistence mode"),
        ([("Failed to initialize NVML: Driver/library version mismatch", 18)], "nobody knows the persistence mode"),
    ],
    ids=["joined by NVLink", "clients not known", "lost itself", "driver replaced"],
)
def test_a_reset_that_may_hit_others_is_not_forced(answers: list[Any], why: str, root: Root, cordoned: None) -> None:
    root.program("nvidia-smi", *answers)
    with pytest.raises(ActivityFailed, match=why):
        devices.reset_gpu()
    assert sum("--gpu-reset" in call for call in root.calls) == (why.startswith("is not reset"))


@pytest.mark.parametrize(
    ("one", "every", "mode"),
    [
        (f"{UUID}, Disabled", (NO_HANDLE, 255), "Disabled"),
        (f"{UUID}, Enabled", f"{NO_HANDLE}\n{UUID}, Enabled", "Enabled"),
        (("No devices were found", 6), f"{LOST}, Enabled", "Enabled"),  # gone: it has no mode to put back
        (f"{UUID}, [Unknown Error]", f"{UUID}, [Unknown Error]", ""),
        ("", "", ""),
        (("No devices were found", 6), ("No devices were found", 6), ""),
        ((NO_HANDLE, 255), f"{LOST}, Enabled\n{NO_HANDLE}", ""),  # which one is lost, the list does not say
    ],
)
def test_the_persistence_mode_of_a_device_is_reported_or_not_known(one: Any, every: Any, mode: str, root: Root) -> None:
    programs = HostPersistence().programs(DeviceArgs(name="n", uid="u", machine="m", uuid=UUID))
    root.program("nvidia-smi", one, every)
    read = programs.read(root.run(programs.check).output).strip()
    assert read == mode or (not mode and read not in (programs.expected, programs.ours))


# -- the mocked NVML -------------------------------------------------------------------------------------------------------

STATUS = '{"node": "n", "eventWait": "ok", "gpus": [{"index": 0, "mode": "healthy", "xids": 3}, {"index": 1, "mode":"lost"}]}'
STATE_OF_IT = '"eventWait": "ok"\n"mode": "healthy"\n"mode":"lost"'
ODD = "GPU-1'; touch /tmp/owned; $(id) `id` *\\"


def mock(root: Root, *answers: tuple[str, int]) -> Callable[[], list[list[str]]]:
    """Put the mock's program, which writes down each word that it gets; further calls are answered like the last one. What gives them."""
    cases = "".join(f"{number}) cat <<'END'\n{text}\nEND\nexit {code};;\n" for number, (text, code) in enumerate(answers, 1))
    count = f"n=$(grep -c '^--$' /words); [ $n -gt {len(answers)} ] && n={len(answers)}"
    root.file("/words", "")
    root.file("/stand-ins/nvml-mock-ctl", f"#!/bin/sh\nprintf '%s\\n' -- \"$@\" >> /words\n{count}\ncase $n in\n{cases}esac\n")
    (root.folder / "stand-ins/nvml-mock-ctl").chmod(0o755)
    return lambda: [call.splitlines() for call in (root.folder / "words").read_text().split("--\n") if call]


@pytest.mark.parametrize(
    ("act", "called"),
    [
        (lambda: devices.fail_gpu("fallen_off_bus"), ["fail --gpu ODD --mode fallen_off_bus"]),
        (lambda: devices.fail_gpu("lost", 79), ["fail --gpu ODD --mode lost --xid 79"]),
        (lambda: devices.raise_xids([48, 63]), ["xid --gpu ODD --code 48", "xid --gpu ODD --code 63"]),
        (devices.fail_event_wait, ["event-wait --fail"]),
    ],
)
@pytest.mark.usefixtures("live")
def test_the_mock_gets_every_word_as_it_is(act: Callable[[], Any], called: list[str], root: Root) -> None:
    words = mock(root, (STATUS, 0), ("", 0))
    current().plan.targets[0].facts["uuid"] = ODD
    act()
    undo = HostMock().programs(MockArgs(name="n", uid="u", machine="m", prior=STATE_OF_IT))
    assert root.run(undo.undo).exit_code == 0
    expected = [[ODD if word == "ODD" else word for word in line.split()] for line in ["status", *called, "reset"]]
    assert words() == expected
    assert not list((root.folder / "tmp").iterdir())
    mock(root, (STATUS, 0))
    assert root.run(undo.check).output.strip() == undo.expected


@pytest.mark.parametrize(
    ("answers", "why", "calls"),
    [
        ([(STATUS, 0), ("nvml-mock-ctl: no GPU 'x' on this node", 1)], "exit 1: nvml-mock-ctl: no GPU", 2),
        ([(STATUS, 0), ("", 0), ("usage: nvml-mock-ctl", 2)], "exit 2: usage", 3),
        ([(STATUS, 3)], "exit 3", 1),  # what it overrides is not known, whatever it prints
        ([("{}", 0)], "exit 1", 1),
        (None, "exit 127.*nvml-mock-ctl", 0),
    ],
    ids=["no such device", "the second of two", "no state", "a state without a mode", "not there"],
)
@pytest.mark.usefixtures("live")
def test_a_mock_that_fails_ends_the_activity(answers: list[tuple[str, int]] | None, why: str, calls: int, root: Root) -> None:
    words = mock(root, *answers) if answers is not None else list
    with pytest.raises(ActivityFailed, match=f"(?s){why}"):
        devices.raise_xids([48, 63])
    assert len(words()) == calls


# -- a reset that is to be refused -----------------------------------------------------------------------------------------


def opened(root: Root, minor: int = 3, opened_minor: int | None = 3) -> None:
    """The driver's account of two GPUs, and a process that has a device's file open."""
    for number, (uuid, other) in enumerate(((LOST, 0), (UUID, minor))):
        text = f"Model: \t\t NVIDIA H100\nGPU UUID: \t {uuid}\nBus Location: \t 0000:1{number}:00.0\nDevice Minor: \t {other}\n"
        root.file(f"/proc/driver/nvidia/gpus/0000:1{number}:00.0/information", text)
    (root.folder / "proc/4242/fd").mkdir(parents=True)
    if opened_minor is not None:
        (root.folder / "proc/4242/fd/9").symlink_to(f"/dev/nvidia{opened_minor}")


@pytest.mark.parametrize(
    ("holder", "answer", "expected"),
    [
        (3, (IN_USE, 255), {"attempted": True, "refused": True, "clients": 1}),
        (3, (USED, 255), {"attempted": True, "refused": True, "clients": 1}),
        (3, RESET, {"attempted": True, "refused": False, "clients": 1}),
        (None, RESET, {"attempted": False, "refused": False, "clients": 0}),
        (0, RESET, {"attempted": False, "refused": False, "clients": 0}),
    ],
    ids=["refused", "refused in other words", "not refused", "nobody has it open", "another GPU is open"],
)
def test_a_reset_is_asked_for_while_somebody_has_the_gpu_open(
    holder: int | None, answer: Any, expected: dict[str, Any], root: Root, live: Cluster
) -> None:
    opened(root, opened_minor=holder)
    root.program("nvidia-smi", "", answer)
    result = devices.reset_in_use()
    assert result.items() >= expected.items()
    assert any("--gpu-reset" in call for call in root.calls) is expected["attempted"]


def test_an_answer_about_something_else_is_no_refusal(root: Root, live: Cluster) -> None:
    opened(root)
    root.program("nvidia-smi", "", ("Unable to reset this GPU: Insufficient Permissions", 4))
    with pytest.raises(ActivityFailed, match=r"did not answer whether .*Insufficient Permissions"):
        devices.reset_in_use()


def test_a_worker_keeps_its_device_open(root: Root) -> None:
    script = HOLD + "if cat <&9; then echo held; fi"
    assert "held" not in root.run(("sh", "-c", script)).output
    (root.folder / "dev/nvidia0").symlink_to("null")
    (root.folder / "dev/nvidia1").symlink_to("not-given-to-this-pod")
    assert root.run(("sh", "-c", script)).output == "held\n"


# -- the kernel log --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("address", "expected"), HOSTS["addresses"])
def test_an_address_is_written_as_the_driver_writes_it(address: str, expected: str) -> None:
    assert kernel_address(address) == expected


def test_a_line_in_the_kernel_log_has_the_drivers_form(root: Root, live: Cluster) -> None:
    root.file("/stand-ins/dmesg", '#!/bin/sh\necho "[  12.345678] $(cat /dev/kmsg)"\n')
    (root.folder / "stand-ins/dmesg").chmod(0o755)
    line = "NVRM: Xid (PCI:{pci}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    telemetry.write_kernel_lines([line])
    stamp = f"gpu-conformance-{RUN}-A1"
    assert (root.folder / "dev/kmsg").read_text() == f"{line.format(pci='0000:cb:00')} ({stamp})\n"
    root.program("dmesg", "[  12.345678] something else")
    with pytest.raises(ActivityFailed, match="shows 0 of 1 lines"):
        telemetry.write_kernel_lines([line])


# -- scripts of pods -------------------------------------------------------------------------------------------------------


def test_a_worker_lists_its_devices_and_beats(root: Root) -> None:
    root.program("nvidia-smi", sample("nvidia-smi-L-1"))
    reported = root.run(("timeout", "2", "sh", "-c", worker_script(0.02))).output
    assert uuids_in(reported) == uuids_in(sample("nvidia-smi-L-1")) != []
    assert beat_in(reported) is not None
    first = reported.partition("beat 1\n")[2].partition("beat 2\n")[0]
    assert uuids_in(first), "the pause of a listing shows before the fault"
    root.program("nvidia-smi", ("Failed to initialize NVML: Unknown Error", 255))
    assert root.run(("sh", "-c", worker_script(0.02))).exit_code == 3


@pytest.mark.parametrize(("code", "injected"), [(0, True), (239, False)])
def test_a_value_goes_into_dcgms_cache_again_and_again(code: int, injected: bool, root: Root) -> None:
    root.program("dcgmi", ("Successfully injected field info." if injected else "Error: unable to establish a connection", code))
    done = root.run(("sh", "-c", telemetry.injection({84: "0", 230: "79"}, 3, 1)))
    assert ("injected" in done.output.splitlines(), done.exit_code) == (injected, 0 if injected else 9)
    once = [f"dcgmi test --inject --gpuid 3 -f {field} --offset 1" for field in ("84 -v 0", "230 -v 79")]
    assert root.calls == (once * 2 if injected else once[:1])


def test_a_rank_is_found_by_its_marker_and_who_asks_is_not(root: Root, live: Cluster) -> None:
    """By the real ``pgrep``, which matches as ``pkill`` does."""
    marker, pattern = ranks.marker("0"), ranks.pattern("0")
    with subprocess.Popen(["sh", "-c", "read x", marker], stdin=subprocess.PIPE) as process:
        asking = f"pgrep -f '{pattern}' -P {os.getpid()}; true"
        found = subprocess.run(["sh", "-c", asking], capture_output=True, text=True, check=True).stdout.split()
        assert process.stdin is not None
        process.stdin.close()
    assert found == [str(process.pid)]
