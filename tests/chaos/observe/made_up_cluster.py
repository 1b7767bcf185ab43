"""Objects of a made-up cluster, as signals and planning read them."""

from typing import Any
from urllib.parse import parse_qs

import msgspec

from chaos.model.plan import CANARY_LABEL, Plan, PlanFacts, Target
from chaos.observe.view import NoData, Reading, View
from fixtures.cluster.answer import Expected, Form
from fixtures.cluster.kinds import BUILT_IN, KINDS, path
from fixtures.cluster.server_clock import ServerClock
from fixtures.cluster.versions_seen import VersionsSeen
from fixtures.kubernetes.models import Json
from fixtures.model.platform.installed import InstalledComponent
from fixtures.model.platform.namespaces import Platform
from fixtures.policy.model import Tenants
from fixtures.verdict.record import TargetKind

NAMESPACE = "gpu-conformance-chaos-run"
CANARIES = f"{NAMESPACE}-canaries"


def node(name: str, *, gpus: int = 8, ready: str = "True", allocatable: int | None = None, **more: Any) -> Json:
    counted = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    left = {"nvidia.com/gpu": str(gpus if allocatable is None else allocatable)} if gpus else {}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": more.get("labels", {})},
        "spec": {"unschedulable": True} if more.get("cordoned") else {"taints": more.get("taints", [])},
        "status": {
            "capacity": {"cpu": "64", **counted},
            "allocatable": {"cpu": "64", **left},
            "conditions": [{"type": "Ready", "status": ready}, *more.get("conditions", [])],
        },
    }


def pod(name: str, on: str = "", *, gpus: int = 1, phase: str = "Running", namespace: str = "team", **more: Any) -> Json:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": more.get("uid", f"uid-{name}"),
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            **more.get("meta", {}),
        },
        "spec": {**({"nodeName": on} if on else {}), "containers": [{"resources": {"limits": limits, "requests": limits}}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if phase == "Running" else "False"}],
            "containerStatuses": [{"restartCount": more.get("restarts", 0)}],
        },
    }


def canary(name: str, on: str = "", role: str = "worker", **more: Any) -> Json:
    labels = {CANARY_LABEL: role, **more.pop("labels", {})}
    return pod(name, on, namespace=CANARIES, labels=labels, **more)


def installed(component: str = "device-plugin", name: str = "plugin", namespace: str = "gpu") -> InstalledComponent:
    """A DaemonSet of the platform, which made what :func:`made_by` of ``u`` says."""
    key = "apps/daemonsets"
    return InstalledComponent(component=component, key=key, namespace=namespace, name=name, uid="u", selector=f"app={name}")


def workload(
    name: str, labels: dict[str, str], namespace: str = "gpu", *, desired: int = 1, image: str = "registry/x:1", **more: Any
) -> Json:
    """A DaemonSet, or a Deployment; ``inner`` are more labels of its pods, ``selector`` selects others than ``labels`` do."""
    template = {"metadata": {"labels": {**labels, **more.get("inner", {})}}, "spec": {"containers": [{"image": image}]}}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels},
        "spec": {"replicas": desired, "selector": more.get("selector", {"matchLabels": labels}), "template": template},
        "status": {"desiredNumberScheduled": desired},
    }


def made_by(uid: str, kind: str = "DaemonSet") -> Json:
    """Metadata of what a controller made."""
    return {"ownerReferences": [{"kind": kind, "name": "any", "uid": uid, "controller": True}]}


def standing(*namespaces: str) -> Platform:
    """Components are looked for in these namespaces (``gpu`` when none is named)."""
    return Platform(Tenants(more_infrastructure=namespaces or ("gpu",)))


class World:
    """Lists by resource key, and texts (logs, pages) by a part of their path."""

    def __init__(self, texts: dict[str, str] | None = None, **lists: list[Json]) -> None:
        self.lists = {key.replace("__", "/"): items for key, items in lists.items()}
        self.texts = texts or {}
        self.versions_seen = VersionsSeen()
        self.server_clock = ServerClock()

    @staticmethod
    def path(key: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return path(key, KINDS[key].versions[0] if key in KINDS else "v1", namespace, name, subresource)

    def serves(self, key: str) -> bool:
        return key in self.lists or key in BUILT_IN

    def fetch(self, path: str) -> bytes:
        for part, text in self.texts.items():
            if part in path:
                return text.encode()
        place, _, query = path.partition("?")
        expected = Expected.of("GET", place, None, None)
        key, namespace = expected.key, expected.namespace
        if expected.form is not Form.LIST or key not in self.lists:
            raise NoData(f"GET {path}: 404")
        wanted = {option: values[0] for option, values in parse_qs(query).items()}
        items = [item for item in self.lists[key] if not namespace or item["metadata"].get("namespace") in (namespace, None)]
        for text in filter(None, wanted.get("fieldSelector", "").split(",")):
            field, _, value = text.partition("=")
            part, _, leaf = field.partition(".")
            items = [item for item in items if (item[part] or {}).get(leaf, "") == value]
        for text in filter(None, wanted.get("labelSelector", "").split(",")):
            label, _, value = text.partition("=")
            items = [item for item in items if (item["metadata"].get("labels") or {}).get(label) == value]
        stored = [
            {**item, "metadata": {"uid": f"uid-{item['metadata']['name']}", "resourceVersion": "1", **item["metadata"]}} for item in items
        ]
        kind = expected.kind or "AnyList"
        return msgspec.json.encode({"kind": kind, "apiVersion": expected.api_version, "metadata": {}, "items": stored})

    def view(self) -> View:
        return View(self.fetch, self.path, serves=self.serves)


class Read:
    """A reading of a world; ``again`` is the next one with the same memory."""

    now = Reading.now

    def __init__(self, world: World, plan: Plan, memory: dict[str, Any] | None = None) -> None:
        self.cluster = world
        self.plan = plan
        self.memory = {} if memory is None else memory
        self._world = world

    def text(self, path: str) -> bytes:
        return self._world.fetch(path)

    def again(self, world: World) -> "Read":
        return Read(world, self.plan, self.memory)


def plan(*targets: Target, facts: PlanFacts | None = None, seconds: dict[str, float] | None = None) -> Plan:
    return Plan(
        experiment="X1",
        run_id="run",
        cluster_uid="uid",
        server="",
        target_kind=TargetKind.SIMULATED,
        namespace=NAMESPACE,
        targets=targets or (Target(kind="nodes", name="a", uid="uid-a", node="a", facts={"units": 1, "uuid": "GPU-7", "index": 7}),),
        untouched="z",
        expires_at="2030-01-01T00:00:00+00:00",
        facts=msgspec.to_builtins(facts or PlanFacts()),
        seconds=seconds or {"sample": 0.25, "deadline": 60.0, "stale": 0.0},
        eligible=3,
    )
