"""A small cluster in a store, and what an experiment needs to act on it."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from chaos.act.context import ActivityContext
from chaos.engine import recover as recovering
from chaos.engine.recover import RecoveryResult
from chaos.ledger import replay as module
from chaos.ledger.bounds import Terms
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import Ledger
from chaos.ledger.replay import Residue
from chaos.ledger.undos.nodes import NodeLabels
from chaos.model.plan import Plan, Target
from chaos.model.records import Entry
from chaos.safety.lease import AbortFlag
from fixtures.cluster.client import Cluster
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.policy.allowlist import cluster_uid
from fixtures.simulator.config.defects import Rights
from fixtures.simulator.server.request import Authorizer
from fixtures.simulator.server.store import Store
from fixtures.verdict.record import TargetKind
from tests.chaos.tables import table
from tests.served import served
from tests.troubles import Trouble
from tests.watching import PATIENCE

RUN = "20261121-120000-abcd"
KUBE_SYSTEM = "11111111-2222-3333-4444-555555555555"
PRODUCT = "nvidia.com/gpu.product"

Json = dict[str, Any]


def shape(kind: str, name: str, **metadata: Any) -> Json:
    """An object of a kind as the small cluster has it, under another name."""
    found: Json = deepcopy(table("ledger/shapes")[kind])
    found["metadata"] = {**found.get("metadata", {}), "name": name, **metadata}
    return found


def node(name: str, **labels: str) -> Json:
    found = shape("Node", name, uid=f"uid-{name}")
    found["metadata"]["labels"] = {"nvidia.com/gpu.product": "H100", "kubernetes.io/hostname": name, **labels}
    found["status"]["nodeInfo"] = {"systemUUID": f"machine-{name}"}
    return found


def namespace(name: str, uid: str = "") -> Json:
    return shape("Namespace", name, **({"uid": uid} if uid else {}))


def deployment(name: str = "gpu-operator") -> Json:
    found = shape("Deployment", name, uid=f"uid-{name}")
    found["spec"] |= {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}}}}
    return found


def daemon_pod(name: str, node_name: str, *, uid: str = "", ready: bool = True) -> Json:
    found = shape("Pod", name, uid=uid or f"uid-{name}")
    found["spec"]["nodeName"] = node_name
    found["status"]["conditions"] = [{"type": "Ready", "status": str(ready)}]
    return found


def config_map(name: str, **data: str) -> Json:
    return {**shape("ConfigMap", name, uid=f"uid-{name}", labels={"app": name}), "data": data}


def objects() -> list[Json]:
    return [
        namespace("kube-system", KUBE_SYSTEM),
        namespace("gpu-operator"),
        node("gpu-1"),
        node("gpu-2"),
        deployment(),
        daemon_pod("plugin-1", "gpu-1"),
        daemon_pod("plugin-2", "gpu-2"),
        config_map("operand", key="value"),
    ]


@contextmanager
def world(
    folder: Path, *troubles: Trouble, authorizer: Authorizer | None = None, extra: Sequence[Json] = ()
) -> Iterator[tuple[Cluster, Store]]:
    """The served cluster. ``troubles`` may be used up by the test's own requests too: they are taken in order."""
    with served(folder, [*objects(), *extra], troubles, authorizer) as pair:
        yield pair


class Denied(Rights):
    """Rights that the suite's account lacks."""

    def allowed(self, user: str, *words: str) -> bool:
        return super().allowed("gpu-conformance", *words)


def plan(*targets: Target, expires_in: float = 3600, run_id: str = RUN, experiment: str = "A1") -> Plan:
    moment = datetime.now(UTC) + timedelta(seconds=expires_in)
    return Plan(
        experiment=experiment,
        run_id=run_id,
        cluster_uid=KUBE_SYSTEM,
        server="http://served",
        target_kind=TargetKind.LIVE,
        namespace=f"gpu-conformance-chaos-{run_id}",
        targets=targets or (Target(kind="nodes", name="gpu-1", uid="uid-gpu-1", node="gpu-1"),),
        untouched="gpu-2",
        expires_at=moment.isoformat(),
        eligible=2,
    )


def ledger(folder: Path, cluster: Cluster | None = None, *, experiment: str = "A1", run_id: str = RUN, uid: str = KUBE_SYSTEM) -> Ledger:
    """The ledger of an experiment; without ``cluster`` a file alone, of the cluster of this UID."""
    proof = Proof.open(cluster, run_id, prefix=CHAOS_PREFIX, renewing=False) if cluster else None
    mirror = Mirror.open(cluster, run_id, experiment, seconds=PATIENCE) if cluster else None
    origin = plan(experiment=experiment, run_id=run_id).origin
    origin = msgspec.structs.replace(origin, cluster_uid=cluster_uid(cluster) if cluster else uid)
    return Ledger.create(folder / run_id / experiment / "ledger.jsonl", origin, mirror, proof)


def path_of(book: Ledger) -> Path:
    """Its file."""
    assert book.path is not None
    return book.path


class Anything(Terms, frozen=True, kw_only=True):
    """Terms of a test that asks how something is undone, not whether its experiment may touch it."""

    def outside(self, entry: Entry) -> str:
        return ""

    def planned(self, experiment: str, nodes: Iterable[str]) -> Terms:
        return self


ANYTHING = Anything(bounds={}, image="registry.k8s.io/e2e-test-images/busybox:1.37.0-1")


def replay(book: Ledger, cluster: Cluster, deadline: float, **options: Any) -> list[Residue]:
    return module.replay(book, cluster, deadline, terms=ANYTHING, **options)


def recover(cluster: Cluster, folder: Path | None = None, **options: Any) -> RecoveryResult:
    return recovering.recover(cluster, folder, **{"terms": ANYTHING, **options})


def acting(folder: Path, cluster: Cluster, book: Ledger, *targets: Target, **changes: Any) -> ActivityContext:
    made = plan(*targets, **changes)
    if book.origin is not None:
        made = msgspec.structs.replace(made, cluster_uid=book.origin.cluster_uid)
    return ActivityContext(cluster, made, book, AbortFlag(folder), allowed=lambda: None, terms=ANYTHING)


def soon(seconds: float = PATIENCE) -> float:
    return time.monotonic() + seconds


def fetch(cluster: Cluster, key: str, name: str, namespace: str = "") -> Json:
    answer = cluster.get(key, name, namespace)
    assert answer.ok, answer.message
    return answer.json()


def strip(cluster: Cluster, book: Ledger, name: str = "gpu-1") -> None:
    """Take a node the label of its product, as the ledger's new entry says."""
    book.arm("node.labels", NodeLabels().args(fetch(cluster, "nodes", name), {PRODUCT: None}))
    assert cluster.patch("nodes", name, {"metadata": {"labels": {PRODUCT: None}}}).ok
