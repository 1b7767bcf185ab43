"""Nodes that came back from a repair, put into simulated clusters and judged with ``--nodes``.

The rows stand in ``nodes.yaml``. Each cluster has the nodes of its rows and healthy peers, and one run judges all of them, with
``--strict``: what is only recommended keeps a node out too.
"""

import asyncio
import functools
import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import yaml

from conformance.plugin.opening import SIMULATED_PACE
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import Change, Defect, DeviceValues, NodePool, Rdma, Scenario, load_scenario
from fixtures.simulator.process.serve import new_tokens, write_kubeconfig
from fixtures.simulator.simulated_cluster import SimulatedCluster
from fixtures.verdict.record import Report, Verdict
from fixtures.verdict.subjects import causes_that_blame_nodes, node_concerned
from tests.endtoend.runs import run_for_record

PEERS = 4
"""Healthy nodes beside those that came back: as many as say what is usual, and more."""

AT_ONCE = 10
"""Nodes that one run judges: a busy machine ends it in time."""

CONSENT = {"return": {"tolerate": ["node.kubernetes.io/unschedulable", "example.com/repair"]}, "network": {"minBusBandwidth": 350}}
_HOLDING = (Verdict.FAILED, Verdict.WARNED, Verdict.INCONCLUSIVE, Verdict.ERROR)


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One node of ``nodes.yaml``."""

    title: str
    source: str
    cluster: str = "h100"
    dcgm: str = ""
    changes: list[Change] = []
    objects: list[dict[str, Any]] = []
    devices: list[DeviceValues] = []
    behaviour: dict[str, Any] = {}


class Outcome(msgspec.Struct, frozen=True):
    """What a run says of a node: the requirements that keep it out, each with its words; none where it may take work."""

    reasons: dict[str, str]
    judged: int  # requirements that judged it


@functools.cache
def rows() -> Mapping[str, Mapping[str, Row]]:
    """The rows by ``wrong`` and ``good``, and by name."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, dict[str, Row]])


def outcomes(which: str, folder: Path, names: Iterable[str]) -> dict[str, Outcome]:
    """What runs say of these nodes of one half of the table."""
    chosen = {name: rows()[which][name] for name in names}
    found: dict[str, Outcome] = {}
    for cluster in dict.fromkeys(row.cluster for row in chosen.values()):
        some = [(name, row) for name, row in chosen.items() if row.cluster == cluster]
        for start in range(0, len(some), AT_ONCE):
            found |= _judged(cluster, dict(some[start : start + AT_ONCE]), folder / f"{which}-{cluster}-{start}")
    return {name: found[name] for name in chosen}


def _judged(cluster: str, some: Mapping[str, Row], folder: Path) -> dict[str, Outcome]:
    folder.mkdir(parents=True)
    scenario = _scenario(cluster, PEERS + len(some))
    nodes = {name: f"{scenario.pools[0].name}-{PEERS + number}" for number, name in enumerate(some)}
    defects = [_defect(name, row, scenario.name, nodes[name]) for name, row in some.items()]
    policy = folder / "policy.yaml"
    policy.write_text(json.dumps(_merged(SIMULATED_PACE, policy_of(scenario, defects), CONSENT)), encoding="utf-8")
    with _serving(SimulatedCluster(scenario, defects, tokens=(tokens := new_tokens())), tokens, folder) as kubeconfig:
        options = ("--strict", "--access", "hardware", "--policy", str(policy), "--nodes", ",".join(nodes.values()))
        done = run_for_record(folder, "--kubeconfig", str(kubeconfig), *options)
    return {name: _outcome(done.record, node, alone=len(nodes) == 1) for name, node in nodes.items()}


def _outcome(report: Report, node: str, *, alone: bool) -> Outcome:
    """``alone``: the run was about this node only, so that what is found of no single node, such as a run over the fabric, is its too."""
    reasons: dict[str, str] = {}
    judged, blaming = 0, causes_that_blame_nodes(report)
    for result in report.results:
        own = [one for one in result.subjects if node_concerned(one, blaming) == node or alone]
        judged += any(one.verdict in (Verdict.PASSED, *_HOLDING) for one in own)
        for one in own:
            if one.verdict in _HOLDING:
                reasons.setdefault(result.id, one.message or f"{one.observed}, expected {one.expected}")
    return Outcome(reasons, judged)


_FABRIC = Rdma(resource="rdma/rdma_shared_device_a", units=63, hcas=8)
_POOLS = {
    "h100": ("idle-fabric", NodePool(name="h100", product="H100", gpus=8, rdma=_FABRIC)),
    "mig": ("mig-single", None),
    "dra": ("dra", None),
}


def _scenario(cluster: str, count: int) -> Scenario:
    """A scenario whose first pool has so many nodes, and in which no tenant works."""
    name, pool = _POOLS.get(cluster, _POOLS["h100"])
    scenario = load_scenario(name)
    first, *others = scenario.pools
    return msgspec.structs.replace(scenario, pools=[msgspec.structs.replace(pool or first, count=count), *others], tenants=[])


def _defect(name: str, row: Row, scenario: str, node: str) -> Defect:
    parts = {"changes": row.changes, "objects": row.objects, "devices": row.devices, "behaviour": row.behaviour}
    made = json.loads(msgspec.json.encode(parts).replace(b"NODE", node.encode()))
    return msgspec.convert({"name": name, "description": row.title, "scenario": scenario, "trips": [], **made}, Defect)


def _merged(*documents: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for document in documents:
        for section, values in document.items():
            found[section] = {**found.get(section, {}), **values} if isinstance(values, dict) else values
    return found


@contextmanager
def _serving(cluster: SimulatedCluster, tokens: dict[str, str], folder: Path) -> Iterator[Path]:
    """The kubeconfig of the running cluster, whose programs are in a thread of this process."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    url = asyncio.run_coroutine_threadsafe(cluster.start(), loop).result(120)
    try:
        path = folder / "kubeconfig"
        write_kubeconfig(path, url, tokens)
        yield path
    finally:
        asyncio.run_coroutine_threadsafe(cluster.stop(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
