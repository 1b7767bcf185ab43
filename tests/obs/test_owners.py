"""Owners of devices: the exporter's labels against what the kubelet, claims and pods say. Reports: docs/facts/telemetry.md#owners."""

import json
import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from conformance.cli.main import main
from conformance.obs import attribution
from conformance.obs.attribution import judge_attribution, owner_flaws
from conformance.obs.page import Owner, read_page
from conformance.obs.scraping import Scrape
from conformance.probes.running import ProbeResult
from fixtures.kubernetes.models import Json
from fixtures.kubernetes.pod_resources import Container, Granted, PodResources
from fixtures.kubernetes.pod_resources import Pod as Listed
from fixtures.model.devices.held import Held, held_on
from fixtures.model.devices.shares import listed_by_kubelet
from fixtures.model.platform.exporters import Exporter, kinds
from fixtures.policy.policy_file import build_policy
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Subject
from tests.builders import a_node, a_pod, a_scope
from tests.obs.test_pages import SLICED, WHOLE, page, uuid
from tests.simulated import simulated

HELD = {
    ("team-a", "train-0"): Held(count=1, containers=frozenset({"main"}), devices=frozenset({uuid(0)}), source="the kubelet", runs=True),
    ("team-a", "web-0"): Held(runs=True),
    ("team-b", "young"): Held(count=1, containers=frozenset({"main"})),
}


def labelled(text: str, number: int, namespace: str = "team-a", pod: str = "train-0", container: str = "main", more: str = "") -> str:
    """A page whose rows of one device name an owner, as the exporter writes it."""
    owner = f',container="{container}",namespace="{namespace}",pod="{pod}"'
    return re.sub(rf'^(\w+{{gpu="{number}"{more}[^}}]*)}}', rf"\g<1>{owner}}}", text, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "causes"),
    [
        (labelled(page(), 0), set()),
        (labelled(page(), 0).replace('pod="', 'exported_pod="').replace('namespace="', 'exported_namespace="'), set()),
        (
            labelled(page(), 0)
            .replace('container="', 'container_name="')
            .replace('pod="', 'pod_name="')
            .replace('namespace="', 'pod_namespace="'),
            set(),
        ),
        (labelled(labelled(page(), 0), 1, "", "", ""), set()),  # idle ones with empty labels
        (page(), {"OwnerNotNamed"}),  # dcgm-exporter#150, gpu-operator#2706
        (labelled(page(), 1), {"OwnerWrong"}),  # another device's
        (labelled(labelled(page(), 0), 1), {"OwnerWrong"}),
        (labelled(page(), 0, pod="web-0"), {"OwnerWrong", "OwnerNotNamed"}),  # dcgm-exporter#27
        (labelled(page(), 0, container="sidecar"), {"OwnerWrong"}),
        (labelled(labelled(page(), 0), 2, pod="train-9"), {"OwnerStale"}),  # dcgm-exporter#140
        (labelled(page(), 0, namespace="team-b"), {"OwnerStale", "OwnerNotNamed"}),
        (labelled(page(), 0).replace(',container="main"', ""), {"OwnerNotNamed"}),
    ],
    ids=map(str, count(1)),  # a page holds the time, which differs between workers
)
def test_each_way_to_name_an_owner_wrongly_is_reported(text: str, causes: set[str]) -> None:
    flaws = owner_flaws(read_page(text), HELD, shared=False)
    assert {flaw.cause for flaw in flaws} == causes
    assert all("GPU-" in flaw.text for flaw in flaws)


def test_a_shared_device_names_one_of_its_owners_and_no_stranger() -> None:
    assert owner_flaws(read_page(page()), HELD, shared=True) == []
    assert [flaw.cause for flaw in owner_flaws(read_page(labelled(page(), 3, pod="gone")), HELD, shared=True)] == ["OwnerStale"]


def test_what_a_pod_holds_is_reported_by_itself_before_the_kubelet() -> None:
    status = {
        "containerStatuses": [
            {"name": "main", "allocatedResourcesStatus": [{"name": "nvidia.com/gpu", "resources": [{"resourceID": uuid(2)}]}]}
        ]
    }
    pods = [a_pod("train-0", devices=1, node="gpu-0", status=status), a_pod("ended", devices=1, node="gpu-0", phase="Succeeded")]
    scope = a_scope(nodes=[node := a_node("gpu-0")], pods=pods)
    assert held_on(scope, node, pods)["team-a", "train-0"].devices == {uuid(2)}
    by_itself = held_on(scope, node, pods, {("team-a", "train-0"): [uuid(3)]})
    (one,) = by_itself.values()
    assert (set(one.devices), one.source) == ({uuid(3)}, "the pod itself")
    assert one.quarrel, "the kubelet says another device"


def test_a_kubelets_listing_contradicts_an_exporter_where_nobody_else_speaks() -> None:
    """dcgm-exporter#577: the status of pods names no device, and the exporter gives one to another pod."""
    rows = [Granted(resource="nvidia.com/gpu", ids=[f"{uuid(2)}::0", "0"]), Granted(resource="rdma/hca", ids=["GPU-of-no-device"])]
    document = PodResources(pods=[Listed(namespace="team-a", name="train-0", containers=[Container(name="main", devices=rows)])])
    pods = [a_pod("train-0", devices=1, node="gpu-0")]
    scope = a_scope(nodes=[node := a_node("gpu-0")], pods=pods)
    listings = listed_by_kubelet(document, scope.is_device)
    assert listings == {("team-a", "train-0"): {uuid(2)}}
    held = held_on(scope, node, pods, listings=listings)
    assert {flaw.cause for flaw in owner_flaws(read_page(labelled(page(), 0)), held, shared=False)} == {"OwnerWrong"}
    assert owner_flaws(read_page(labelled(page(), 0)), held_on(scope, node, pods), shared=False) == [], "without it nobody knows"


@pytest.mark.parametrize("way", ["no", "runtime", "privileged"])
def test_a_kubelet_is_read_where_the_policy_lets_a_privileged_pod_look(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = PodResources(
        pods=[Listed(namespace="a", name="p", containers=[Container(devices=[Granted(resource="nvidia.com/gpu", ids=[uuid(1)])])])]
    )
    logs, made = [msgspec.json.encode(listing).decode(), "kubelet.sock: Connection refused"], []

    def run_pods(workspace: object, pods: list[Json], seconds: float, namespace: str) -> dict[str, ProbeResult]:
        made.extend(pods)
        names = [pod["metadata"]["name"] for pod in pods]
        return {name: ProbeResult(subject=Subject("Pod", name), logs={"probe": log}) for name, log in zip(names, logs, strict=True)}

    monkeypatch.setattr(attribution, "run_pods", run_pods)
    scope = a_scope(build_policy({"probes": {"suiteImage": "suite:1", "wholeNodes": way}}), nodes=[a_node("gpu-0"), a_node("gpu-1")])
    workspace: Any = SimpleNamespace(namespace=lambda level: level)
    found = attribution.read_kubelets(scope, workspace, scope.snapshot.nodes)
    assert found == ({("a", "p"): {uuid(1)}} if way == "privileged" else {})
    assert all(pod["spec"]["volumes"][0]["hostPath"]["path"] == "/var/lib/kubelet/pod-resources" for pod in made)


@pytest.mark.parametrize(
    ("named", "later", "causes", "staying"),
    [
        (labelled(page(), 0), page(), "", ""),
        (labelled(page(), 0), labelled(page(), 0), "ProbeDidNotRun", "429 Too Many Requests"),
        (labelled(page(), 1), labelled(page(), 1), "OwnerWrong", "429 Too Many Requests"),
        (labelled(page(SLICED), 0, more='[^}]*GPU_I_ID="2"'), page(SLICED), "", ""),
        (page(), page(), "OwnerNotNamed", ""),
        (labelled(page(), 0).replace("train-0", "train-1"), page(), "ProbeDidNotRun", ""),  # another pod of the run, on the same device
        (labelled(page(), 0).replace("team-a", "team-b"), page(), "OwnerNotNamed", ""),
        (re.sub(r'(?m)^.*gpu="0".*\n', "", page()), page(), "NotUnderstood", ""),  # the page lost that device, which OBS-01 says
        (labelled(page(), 1), page(), "OwnerWrong", ""),
        (labelled(labelled(page(), 0), 1), page(), "OwnerWrong", ""),
        (labelled(page(), 0), labelled(page(), 0), "OwnerStale", ""),
        (labelled(page(), 0, container="other"), page(), "OwnerNotNamed", ""),
    ],
    ids=map(str, count(1)),  # a page holds the time, which differs between workers
)
def test_a_probe_pod_is_named_while_it_runs_and_not_after(named: str, later: str, causes: str, staying: str) -> None:
    def scraped(text: str) -> Scrape:
        return Scrape(exporter=Exporter(node=WHOLE, pod=a_pod("dcgm-1", "gpu-operator"), kind=kinds()[0]), at=0.0, page=read_page(text))

    listing = f"## uid\n1000\n## smi\nGPU 0: NVIDIA H100 80GB HBM3 (UUID: {uuid(0)})\n## dev\nnull\nnvidia0\n## end\n"
    ran = ProbeResult(subject=Subject("Pod", "train-0", "team-a"), node=WHOLE, logs={"probe": listing if WHOLE in named else ""})
    owner = Owner("team-a", "train-0", "main")
    finding = judge_attribution(a_node(WHOLE), ran, owner, scraped(named), scraped(later), 90.0, staying=staying)
    assert (finding.outcome is Outcome.BAD, finding.cause) == (causes.startswith("Owner"), causes)


@pytest.mark.test_all
def test_owners_prints_who_holds_which_device(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with simulated(tmp_path, "healthy") as kubeconfig:
        assert main(["owners", "--kubeconfig", str(kubeconfig), "--node", "h100-0", "--json"]) == 0
    (node,) = json.loads(capsys.readouterr().out)
    assert (node["node"], len(node["devices"]), node["disagreements"]) == ("h100-0", 8, [])
    held = [row for row in node["devices"] if row["exporter"] != "-"]
    assert held, "tenants hold devices there"
    assert all(row["others"].startswith(row["exporter"].rpartition("/")[0]) for row in held)
