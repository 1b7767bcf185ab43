"""Every world that can be judged without a server, and the rows that come of it.

A row is (subject, outcome, cause, observed). Where nothing was observed, the message stands in its place: an
undecided finding has nothing else.
"""

import contextlib
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import msgspec
import pytest

import chaos.verdict.judge as chaos_verdicts
from chaos.model.plan import PlanFacts, Target
from chaos.observe.signals import SIGNALS
from chaos.observe.view import NoData
from chaos.verdict import artefacts
from conformance.cli.inspect import KINDS, inspect
from conformance.outputs.captured_text import Unreadable
from conformance.probes.node_documents import NodeDocument, NodeDocuments, why_unreadable
from fixtures.cluster.kinds import KINDS as API_KINDS
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import places_of
from fixtures.model.platform.installed import find_components, standing_of
from fixtures.policy.model import Policy
from fixtures.simulator.builder import hardware_of
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.config.defects import policy_of
from fixtures.simulator.config.scenario import Defect, defect_names, load_defect, load_scenario, scenario_names
from fixtures.simulator.nodes.devices import ContainerView, all_devices
from fixtures.simulator.nodes.machine.host import Host
from fixtures.simulator.nodes.programs.suite import document_of
from fixtures.simulator.simulated_cluster import with_defects
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import Finding
from tests.chaos.observe.made_up_cluster import Read, World, plan
from tests.incidents.incidents import incidents
from tests.judging import CATALOGUE, READ, judge, tests_by_id
from tests.outputs.lookalikes import DATA
from tests.platforms.clusters import CLUSTERS, Cluster, with_quotas
from tests.platforms.dra_clusters import DRA_CLUSTERS
from tests.platforms.judged import snapshot_as_served
from tests.requirements_offline import NOW, healthy, policy_over, snapshot_of
from tests.samples import SAMPLES

Row: TypeAlias = tuple[str, str, str, str]
Rows: TypeAlias = dict[str, list[Row]]
"""Rows by requirement, signal or kind of output."""

BY_DOCUMENTS = [id_ for id_ in CATALOGUE.by_id if {"documents", "documents_too"} & signature(tests_by_id()[id_]).parameters.keys()]
EXPERIMENTS = "experiments of tests"
_PRIVILEGED = {"name": "probe", "securityContext": {"privileged": True}}


def worlds() -> dict[str, Callable[[], Mapping[str, Rows]]]:
    """What gives the rows of worlds. One call may give several worlds, by name."""
    found: dict[str, Callable[[], Mapping[str, Rows]]] = {EXPERIMENTS: _experiments_of_tests}
    found |= {f"scenario {name}": partial(_simulated, f"scenario {name}", name) for name in scenario_names()}
    for defect in map(load_defect, defect_names()):
        found[f"defect {defect.name}"] = partial(_simulated, f"defect {defect.name}", defect.scenario, defect)
    for one in incidents():
        found[f"incident {one.id}"] = partial(_simulated, f"incident {one.id}", one.scenario, one.as_defect)
    for name, cluster in (*CLUSTERS.items(), *DRA_CLUSTERS.items()):
        found[f"platform {name}"] = partial(_platform, f"platform {name}", cluster)
    for path in sorted(DATA.iterdir()):
        found[f"output {path.name}"] = partial(_captured, f"output {path.name}", path, str)
    for path in sorted(SAMPLES.glob("*-[0-9]*.txt")):
        found[f"sample {path.name}"] = partial(_captured, f"sample {path.name}", path, digest)
    return found


def digest(value: object) -> str:
    """Of anything that JSON has: the first 16 hexadecimal digits of its SHA-256."""
    return hashlib.sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()[:16]


class Simulated(NamedTuple):
    """A simulated cluster at ``NOW``: its objects, what a snapshot of them holds, and documents of its machines."""

    objects: list[Json]
    snapshot: Snapshot
    policy: Policy
    documents: NodeDocuments


def simulated(scenario_name: str, *defects: Defect) -> Simulated:
    """A scenario with defects, built and to be judged inside of :func:`clock`."""
    scenario = load_scenario(scenario_name)
    objects = with_defects(healthy(scenario), defects, NOW)
    snapshot = snapshot_of(objects, scenario.kubernetes_version)
    policy = policy_over(snapshot, policy_of(scenario, defects))
    hosts = {name: Host(name, one) for name, one in hardware_of(scenario, defects).items()}
    return Simulated(objects, snapshot, policy, _documents(Scope(snapshot, policy), hosts))


def _simulated(world: str, scenario_name: str, *defects: Defect) -> dict[str, Rows]:
    """A scenario with defects, by requirements that read, by those that judge documents of its machines, and by signals of chaos."""
    with clock():
        built = simulated(scenario_name, *defects)
        return {
            world: _judged(built.snapshot, built.policy, READ),
            f"{world}, documents of its nodes": _judged(built.snapshot, built.policy, BY_DOCUMENTS, documents=built.documents),
            f"{world}, signals": _signals(built.objects, built.policy),
        }


def _platform(world: str, build: Callable[[], Cluster]) -> dict[str, Rows]:
    cluster = build()
    snapshot = snapshot_as_served(with_quotas(cluster.objects))
    with clock():
        return {
            world: _judged(snapshot, policy_over(snapshot, cluster.policy), READ),
            f"{world}, without policy": _judged(snapshot, Policy(), READ),
            f"{world}, signals": _signals(cluster.objects, policy_over(snapshot, cluster.policy)),
        }


@contextlib.contextmanager
def clock() -> Iterator[None]:
    """Stops the clocks: temperatures of simulated devices waver with time, and ages are of now."""
    with patch("time.time", return_value=NOW.timestamp()), patch("time.monotonic", return_value=100_000.0):
        yield


def _judged(*args: Any, **more: Any) -> Rows:
    kept: dict[str, list[Finding]] = {}
    results = judge(*args, kept=kept, **more)
    return {id_: [("", one.verdict, one.cause, one.reason_code), *map(_row, kept[id_])] for id_, one in results.items()}


def _row(found: Finding) -> Row:
    return str(found.subject), found.outcome, found.cause, found.observed or found.message


def _documents(scope: Scope, hosts: Mapping[str, Host]) -> NodeDocuments:
    """What a privileged pod reads on each machine, with no pod at work."""
    found: dict[str, NodeDocument] = {}
    for node in scope.accelerator_nodes:
        places = tuple(place for place in places_of(scope, node) if not why_unreadable(place))
        if (host := hosts.get(node.name)) is None or not places:
            continue
        view = ContainerView(
            pod={"metadata": {"namespace": "probes", "name": "probe"}},
            container=_PRIVILEGED,
            hardware=host.hardware,
            behaviour=Behaviour(),
            host=host,
            uid=0,
            hostname=node.name,
            pod_ip="",
            devices=all_devices(host.hardware),
            hcas=host.hardware.hcas,
            env={},
        )
        document = msgspec.structs.replace(document_of(view), taken_at=NOW.isoformat())
        found[node.name] = NodeDocument(places=places, document=document, whole=True)
    return NodeDocuments(by_node=found)


def _signals(objects: Sequence[Json], policy: Policy) -> Rows:
    """What each signal of chaos reads, for an experiment on the first node with devices and on the pods there."""
    kinds = {(kind.group, kind.kind): key for key, kind in API_KINDS.items()}
    lists: dict[str, list[Json]] = {}
    for item in objects:
        if key := kinds.get((item["apiVersion"].rpartition("/")[0], item["kind"])):
            lists.setdefault(key, []).append(item)
    world = World()
    world.lists = lists
    found = find_components(world.view(), standing_of(world.view(), policy.tenants, whole=False))
    named = [(name, "found", "", str(one)) for name, one in found.found.items()]
    named += [(name, "absent", "", why) for name, why in found.absent.items()]
    named += [(name, "unclear", "", why) for name, why in found.unclear.items()]
    rows: Rows = {"components": named}
    with_devices = (item["metadata"] for item in lists.get("nodes", ()) if "nvidia.com/gpu" in item["status"].get("capacity", {}))
    if (node := next(with_devices, None)) is None:
        return rows
    there = [item["metadata"] for item in lists.get("pods", ()) if item["spec"].get("nodeName") == node["name"]]
    targets = [Target(kind="nodes", name=node["name"], uid=node.get("uid", ""), node=node["name"], facts={"units": 1, "index": 0})]
    for pod in there:
        targets.append(Target(kind="pods", name=pod["name"], namespace=pod["namespace"], uid=pod.get("uid", ""), node=node["name"]))
    reading: Any = Read(world, plan(*targets, facts=PlanFacts(components=found.found)))
    for name, read in SIGNALS.items():
        try:
            rows[name] = [(name, "value", "", msgspec.json.encode(read(reading), order="deterministic").decode())]
        except NoData as error:
            rows[name] = [(name, "no data", "", str(error))]
    return rows


def _captured(world: str, path: Path, shown: Callable[[str], str]) -> dict[str, Rows]:
    """A captured output, read as an output of every kind. ``shown`` gives what is kept of other people's text."""
    text = path.read_text(encoding="utf-8")
    rows: Rows = {}
    for kind in KINDS:
        try:
            one = inspect(kind, text)
        except Unreadable as error:
            rows[kind] = [("", "unreadable", "", shown(str(error)))]
            continue
        facts = msgspec.json.encode(one.facts, order="deterministic").decode()
        rows[kind] = [("", one.verdict, one.reason_code, shown(one.message)), ("facts", "", "", shown(facts))]
        rows[kind] += [(shown(found.subject), found.verdict, "", shown(found.observed or found.message)) for found in one.findings]
    return {world: rows}


def stored(folders: Path) -> dict[str, Rows]:
    """Verdicts of the folders that experiments left anywhere below a folder."""
    found = sorted(path.parent for path in folders.rglob(artefacts.EXPERIMENT))
    return {f"experiment {path.relative_to(folders)}": _verdict(chaos_verdicts.judge(path)) for path in found}


def _experiments_of_tests() -> dict[str, Rows]:
    """Verdicts of all folders that tests of verdicts write. A folder has the name of its content: tests may move."""
    found: dict[str, Rows] = {}
    judge_folder = chaos_verdicts.judge

    def kept(folder: Path) -> chaos_verdicts.ChaosVerdict:
        one = judge_folder(folder)
        content = {path.name: path.read_bytes().hex() for path in folder.iterdir() if path.is_file()}
        found[f"experiment {digest(content)}"] = _verdict(one)
        return one

    printed = io.StringIO()
    with patch.object(chaos_verdicts, "judge", kept), contextlib.redirect_stdout(printed):
        code = pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", str(Path(__file__).parents[1] / "chaos" / "verdict")])
    if code or not found:
        raise RuntimeError(f"tests of verdicts ended with {code} after {len(found)} folders: {printed.getvalue()[-2000:]}")
    return found


def _verdict(one: chaos_verdicts.ChaosVerdict) -> Rows:
    found = [(each.name, each.verdict, each.reason_code, each.message) for each in one.findings]
    marks = [(name, "mark", "", str(mark)) for name, mark in one.marks.items()]
    return {
        "verdict": [("", one.verdict, ", ".join(one.reason_codes), one.message), ("", "recovery", "", str(one.recovery)), *found, *marks]
    }
