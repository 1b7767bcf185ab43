"""What the API shows after a break of a node: of a simulated one and of a real one, in one cluster.

``python -m tests.simulator.fidelity.nodes`` (``make fidelity-nodes``) breaks both in the same ways, at the same time, and writes what was
shown to ``nodes.shown.json``, of which ``docs/fidelity-nodes.md`` is made. ``nodes.yaml`` has the breaks, and why an answer differs.
"""

import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml

from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.control_plane import LocalClusterError
from fixtures.localcluster.guest.machine import GuestError
from fixtures.localcluster.guest.node import DEVICES
from fixtures.localcluster.install.release import BinariesMissing, find
from fixtures.localcluster.local_cluster import LocalCluster
from tests.kubectl import KUBECTL

Json = dict[str, Any]

REAL, SIMULATED = "l40s-2", "l40s-1"
SPACE, GPU = "nvidia-device-plugin", "nvidia.com/gpu"
IMAGE = "docker.io/library/busybox:1.37.0"
SECONDS, LOOK = 600.0, 0.1
SHOWN = Path(__file__).with_name("nodes.shown.json")
LAST = " at last"
ORDERED = ("node devices", "node Ready", "node taints")
"""Whose states are one line: each of them is written, however fast another follows."""

_HOST = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--pid", "--")


class Known(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why lines that ``line`` matches are shown by one kind of node alone; ``rare``: in some runs only."""

    only: str
    line: str
    why: str
    rare: bool = False

    def explains(self, side: str, line: str) -> bool:
        """Whether it is about a line that this side alone shows."""
        return side == self.only and re.fullmatch(self.line, line) is not None


class Break(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One break: what is done to a node, step by step. A step is the name of a method of :class:`Side`, and its arguments."""

    title: str
    steps: list[list[Any]]
    first: list[list[Any]] = []


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``nodes.yaml``."""

    breaks: dict[str, Break]
    known: list[Known]


TABLE = msgspec.convert(yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")), Table)

Shown = dict[str, dict[str, list[str]]]
"""Lines by the name of a break and by side, ``real`` and ``simulated``."""


class Unreached(AssertionError):
    """A node never got to the state that a step waits for."""


class Side:
    """One node: hands on it, and what the API shows of it since :meth:`begin`."""

    def __init__(self, kubeconfig: Path, name: str, *, real: bool) -> None:
        self.name, self.real = name, real
        self.cluster = Cluster.from_kubeconfig(kubeconfig)
        self._kubeconfig = kubeconfig
        self._own = f"-{name}"  # what names of pods here end with
        self._table: Json = {}
        self._watched: dict[str, Observation] = {}
        self._lines: dict[str, list[str]] = {}
        self._events: dict[str, str] = {}
        self._old: dict[str, int] = {}
        self._agents: set[str] = set()
        self._whole = False
        self._reached = 0  # the state of its devices that the last step waited for

    def __enter__(self) -> "Side":
        with ExitStack() as stack:
            fields = f"spec.nodeName={self.name}"
            self._watched = {
                "node": stack.enter_context(Observation(self.cluster, "nodes", fields=f"metadata.name={self.name}")),
                "pods": stack.enter_context(Observation(self.cluster, "pods", SPACE, fields=fields)),
                "events": stack.enter_context(Observation(self.cluster, "events")),
            }
            stack.callback(self._clear)
            self.pod("host", {"hostPID": True}, privileged=True)
            self.runs("host")
            if self.real:
                self._table = msgspec.json.decode(self._exec("cat", f"/{DEVICES}"))
                self._write(self._table | {"exitWhenLost": True})
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def _clear(self) -> None:
        """Put the table of devices back, and delete the pods that are left, whatever failed before."""
        try:
            if self._table:
                self._write(self._table)
        finally:
            names = {pod["metadata"]["name"] for pod in self._watched["pods"].objects.values()}
            for name in {f"host{self._own}", *(name for name in names if name.endswith(self._own))}:
                self.cluster.delete("pods", name, SPACE, grace_seconds=0)

    def begin(self) -> None:
        """Forget what was shown but the state of the node, from which it goes on: its next write may come before or after the break."""
        for _ in self._looks():
            pass
        self._lines, self._events, self._whole, self._reached = {}, {}, False, 0
        self._note_node(self._watched["node"].objects)
        self._lines = {what: states for what, states in self._lines.items() if what in ORDERED}
        self._old = {key: event.get("count", 1) for key, event in self._watched["events"].objects.items()}

    def lines(self) -> list[str]:
        """What was shown since: devices and Ready of the node in their order, each other state of what changed, and events."""
        lines: list[str] = []
        for what, states in sorted(self._lines.items()):
            if not self._whole and len(self._lines.get(what.removesuffix(LAST), ())) == 1:
                continue  # nothing happened to it
            lines += [f"{what}: {' → '.join(states)}"] if what in ORDERED else [f"{what}: {state}" for state in states]
        return list(dict.fromkeys([*lines, *sorted(self._events.values())]))

    # steps

    def rests(self) -> None:
        """Count what did not change too."""
        self._whole = True

    def offers(self, capacity: int, allocatable: int) -> None:
        """Wait until the node has, or had since the last such step, so many devices, and so many to give out."""
        wanted = f"{capacity}/{allocatable}"
        self._until(lambda: wanted in self._lines.get("node devices", [])[self._reached :], wanted)
        self._reached = self._lines["node devices"].index(wanted, self._reached)

    def runs(self, role: str) -> None:
        """Wait until a pod is Ready, and the event is there that its container was started, which may come later."""

        def holds() -> bool:
            started = role == "host" or any(line.startswith(f"event {role}: Normal Started") for line in self._events.values())
            return started and any(_condition(pod, "Ready") == "True" for pod in self._pods(role))

        self._until(holds, f"{role} Ready")

    def shows(self, role: str, text: str) -> None:
        """Wait until a pod's state has this text in it."""
        self._until(lambda: any(text in line for line in self._lines.get(f"pod {role}", ())), f"{role} {text}")

    def pod(self, role: str, spec: Json | None = None, *, privileged: bool = False, **container: Any) -> None:
        """Start a pod that is bound to the node by name."""
        main: Json = {"name": "main", "image": IMAGE, "command": ["sh", "-c", "exec sleep 100000"], **container}
        if privileged:
            main["securityContext"] = {"privileged": True}
        rest = {"nodeName": self.name, "terminationGracePeriodSeconds": 1, "tolerations": [{"operator": "Exists"}], **(spec or {})}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": role + self._own, "namespace": SPACE},
            "spec": {"automountServiceAccountToken": False, "enableServiceLinks": False, "containers": [main], **rest},
        }
        answer = self.cluster.create("pods", body, namespace=SPACE)
        assert answer.ok or answer.status == 409, answer.message

    def take(self, role: str, devices: int) -> None:
        """Start a pod that holds devices."""
        self.pod(role, resources={"limits": {GPU: str(devices)}})

    def starts(self, role: str, container: Json, spec: Json | None = None) -> None:
        """Start a pod with these fields of its container."""
        self.pod(role, spec, **container)

    def end(self, role: str) -> None:
        """Delete a pod, and wait until it is gone."""
        for pod in self._pods(role):
            self.cluster.delete("pods", pod["metadata"]["name"], SPACE)
        self._until(lambda: not self._pods(role), f"{role} gone")

    def kill_plugin(self) -> None:
        """Delete the device plugin's pod at once."""
        (pod,) = self._pods("plugin")
        self.cluster.delete("pods", pod["metadata"]["name"], SPACE, grace_seconds=0)

    def restart_plugin(self, state: str) -> None:
        """Let the plugin start beside a device in this state. One that runs does not learn of it: the project's own would, NVIDIA's not."""
        for step in (self.kill_plugin, partial(self.device, state))[:: 1 if self.real else -1]:
            step()

    def device(self, state: str) -> None:
        """Let the driver say of the node's last device that it is sick, or well again."""
        if not self.real:
            fault = ["fail", "--gpu", "3", "--mode", "lost", "--xid", "79"]
            self._exec(*_HOST, "nvml-mock-ctl", *(fault if state == "sick" else ["reset"]))
            return
        table = msgspec.json.decode(msgspec.json.encode(self._table | {"exitWhenLost": True}))
        table["resources"][0]["devices"][-1]["healthy"] = state == "well"
        self._write(table)

    def stays(self, seconds: float) -> None:
        """Look for a while."""
        deadline = time.monotonic() + seconds
        for _ in self._looks(deadline):
            pass

    # looking

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        for _ in self._looks(time.monotonic() + SECONDS):
            if holds():
                return
        raise Unreached(f"{self.name}: never {what}; {_devices(self._the_node())}, {self.lines()}")

    def _looks(self, deadline: float = 0.0) -> Iterator[None]:
        """Note every change that was told of, until the deadline."""
        while True:
            for what, watched in self._watched.items():
                for objects in watched.news():
                    getattr(self, f"_note_{what}")(objects)
            yield
            if time.monotonic() >= deadline:
                return
            threading.Event().wait(LOOK)

    def _note(self, what: str, state: str) -> None:
        states = self._lines.setdefault(what, [])
        if states[-1:] != [state]:
            states.append(state)

    def _note_node(self, objects: Mapping[str, Json]) -> None:
        for node in objects.values():
            self._note("node devices", _devices(node))
            for item in node["status"].get("conditions") or ():
                why = f" {item['reason']}: {item['message']}"
                self._note(f"node {item['type']}", f"{item['status']}{why}")
            self._note("node conditions", ", ".join(item["type"] for item in node["status"].get("conditions") or ()))
            self._note("node taints", ", ".join(f"{taint['key']}:{taint['effect']}" for taint in node["spec"].get("taints") or ()))

    def _note_pods(self, objects: Mapping[str, Json]) -> None:
        roles = set()
        for pod in objects.values():
            if role := self._role(pod["metadata"]["name"]):
                roles.add(role)
                self._note(f"pod {role}", self._plain(_state(pod)))
                if conditions := [item for item in pod["status"].get("conditions") or () if item["type"] != "PodScheduled"]:
                    shown = ", ".join(f"{item['type']} {item['status']} {item.get('reason', '')}".strip() for item in conditions)
                    self._lines[f"pod {role}{LAST}"] = [shown]
        for what in [line.removeprefix("pod ") for line in self._lines if line.startswith("pod ") and not line.endswith(LAST)]:
            if what not in roles:
                self._note(f"pod {what}", "gone")

    def _note_events(self, objects: Mapping[str, Json]) -> None:
        for key, event in objects.items():
            about = event["involvedObject"]
            if event.get("count", 1) <= self._old.get(key, 0):
                continue
            if about["kind"] == "Node" and about["name"] == self.name:
                role = "node"
            elif not (about["kind"] == "Pod" and (role := self._role(about["name"]))):
                continue
            self._events[key] = f"event {role}: {event['type']} {event['reason']}: {self._plain(event.get('message', ''))}"

    def _role(self, name: str) -> str:
        if name == f"host{self._own}":
            return ""
        if name.endswith(self._own):
            return name.removesuffix(self._own)
        mine = any(pod["metadata"]["name"] == name for pod in self._watched["pods"].objects.values()) or name in self._agents
        if mine and name.startswith("nvdp-nvidia-device-plugin-") and "feature" not in name:
            self._agents.add(name)
            return "plugin"
        return ""

    def _plain(self, text: str) -> str:
        """A text without what differs from pod to pod: names, ids, addresses, seconds."""
        text = text.replace(self._own, "").replace(self.name, "NODE")
        for pattern, plain in _PLAIN:
            text = pattern.sub(plain, text)
        return text

    def _the_node(self) -> Json:
        return next(iter(self._watched["node"].objects.values()))

    def _pods(self, role: str) -> list[Json]:
        live = self._watched["pods"].objects.values()
        return [pod for pod in live if self._role(pod["metadata"]["name"]) == role or pod["metadata"]["name"] == role + self._own]

    def _write(self, table: Json) -> None:
        where = f"/{DEVICES}"
        self._exec(*_HOST, "sh", "-c", f"cat > {where}.new && mv {where}.new {where}", given=msgspec.json.encode(table).decode())

    def _exec(self, *line: str, given: str = "") -> str:
        assert KUBECTL is not None
        host = ("--", *(() if line[0] == "nsenter" else _HOST), *line)
        into = ("exec", *(["-i"] if given else []), "host" + self._own)
        command = [KUBECTL, "--kubeconfig", str(self._kubeconfig), "-n", SPACE, *into, *host]
        done = subprocess.run(
            command,
            input=given or None,
            stdin=None if given else subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode:
            raise Unreached(f"{self.name}: {' '.join(line)}: {done.returncode} {done.stderr}")
        return done.stdout


_PLAIN = (
    (re.compile(r"nvdp-nvidia-device-plugin-\w{5}"), "PLUGIN"),
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "ID"),
    (re.compile(r"back-off (?:\d+m)?\d+s"), "back-off SECONDS"),
)


def _devices(node: Json) -> str:
    return "/".join(str(node["status"].get(part, {}).get(GPU, "none")) for part in ("capacity", "allocatable"))


def _condition(item: Json, kind: str) -> str:
    return next((one["status"] for one in item["status"].get("conditions") or () if one["type"] == kind), "")


def _state(pod: Json) -> str:
    """A pod's phase with its reason, and each container's state; devices of a container that are not healthy."""
    status = pod["status"]
    parts = [" ".join(filter(None, (status.get("phase", ""), status.get("reason", ""), status.get("message", ""))))]
    for item in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        for kind, state in item["state"].items():
            words = [kind, state.get("reason"), str(state["exitCode"]) if "exitCode" in state else "", state.get("message")]
            parts.append(" ".join(filter(None, words)))
        sick = [one for held in item.get("allocatedResourcesStatus") or () for one in held["resources"] if one["health"] != "Healthy"]
        parts += [f"{len(sick)} devices {sick[0]['health']}"] if sick else []
    return ", ".join(filter(None, parts))


def compare(local: LocalCluster, names: Sequence[str] = ()) -> Shown:
    """Break both nodes of a cluster, and return what was shown. Raises :class:`Unreached`."""
    with (
        Side(local.admin_kubeconfig, REAL, real=True) as real,
        Side(local.admin_kubeconfig, SIMULATED, real=False) as simulated,
        ThreadPoolExecutor(2) as pool,
    ):
        return {
            name: dict(zip(("real", "simulated"), pool.map(lambda side: _broken(side, one), (real, simulated)), strict=True))  # noqa: B023
            for name, one in TABLE.breaks.items()
            if name in (names or TABLE.breaks)
        }


def _broken(side: Side, one: Break) -> list[str]:
    side.begin()
    for verb, *arguments in one.first:
        getattr(side, verb)(*arguments)
    side.begin()
    for verb, *arguments in one.steps:
        getattr(side, verb)(*arguments)
    return side.lines()


def apart(shown: Shown) -> list[tuple[str, str, str, str]]:
    """Break, side, line and reason of each line that one side alone shows; the reason is empty where none is known."""
    found = []
    for name, sides in shown.items():
        for side, other in (("real", "simulated"), ("simulated", "real")):
            for line in sides[side]:
                if line not in sides[other]:
                    why = next((known.why for known in TABLE.known if known.explains(side, line)), "")
                    found.append((name, side, line, why))
    return found


def page(shown: Shown | None = None) -> str:
    """``docs/fidelity-nodes.md``, of what was shown last."""
    shown = shown or msgspec.json.decode(SHOWN.read_bytes(), type=Shown)
    rows = apart(shown)
    number = {why: place for place, why in enumerate(dict.fromkeys(row[3] for row in rows), 1)}
    found = [Path(__file__).with_suffix(".head.md").read_text(encoding="utf-8")]
    found += [f"{place}. {why[:1].upper()}{why[1:]}.\n" for why, place in number.items()]
    found.append("\n## What was shown\n")
    for name, sides in shown.items():
        found.append(f"\n### When {TABLE.breaks[name].title}\n\n")
        found += [f"- {_quoted(line)}\n" for line in sides["real"] if line in sides["simulated"]]
        for side, node in (("real", "the real node"), ("simulated", "the simulated node")):
            found += [
                f"- On {node} alone ({number[why]}): {_quoted(line)}\n" for row, which, line, why in rows if (row, which) == (name, side)
            ]
    return "".join(found)


def _quoted(line: str) -> str:
    what, _, states = line.partition(": ")
    return f"{what}: `{states}`"


def main() -> int:
    """Break, write what was shown, print what nobody has explained; 1 where there is such a thing, 2 where nothing could be tried."""
    with tempfile.TemporaryDirectory(prefix="fidelity-nodes-") as folder:
        try:
            programs = find().paths["kube-apiserver"].parent
            with LocalCluster.start(None, "standalone-plugin", Path(folder), programs, real_nodes=1) as local:
                shown = compare(local)
        except (BinariesMissing, GuestError, LocalClusterError) as error:
            print(error, file=sys.stderr)
            return 2
    SHOWN.write_bytes(msgspec.json.format(msgspec.json.encode(shown), indent=1) + b"\n")
    open_ = [one for one in apart(shown) if not one[3]]
    for name, side, line, _ in open_:
        print(f"{name}, only {side}: {line}")
    print(f"{len(shown)} breaks, {len(apart(shown))} differences, {len(open_)} without a reason")
    return 1 if open_ else 0


if __name__ == "__main__":
    sys.exit(main())
