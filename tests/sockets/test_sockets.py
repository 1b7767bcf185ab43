"""The examples of ``deploy/sockets`` on real Kubernetes: its schemas and controllers take them, and what they start says the verdict.

The schemas of policy reports take the suite's. The test is the kubelet of the suite's pods, which no node has room for: it runs what a
container names, with the rights of its account, in this project's checkout. NVSentinel, node-readiness-controller, Karpenter, kured, the
GPU Operator and Cluster API themselves do not run.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from conformance.catalogue import load_catalogue
from conformance.delivery.node_labels import LABEL, NodeVerdict
from deploy import workload
from deploy.monitoring import rule_object
from deploy.templates import resolved
from fixtures.cluster.client import Cluster
from fixtures.cluster.watch import Observation
from fixtures.localcluster.control_plane.account import ROLES, shipped
from fixtures.localcluster.control_plane.components import write_kubeconfig
from fixtures.localcluster.install.release import BinariesMissing, find
from fixtures.localcluster.local_cluster import LocalCluster
from fixtures.model.nodes.chosen import named_nodes
from fixtures.model.nodes.health import CONFORMANT
from fixtures.model.nodes.releases import RELEASED
from fixtures.model.nodes.work import as_node
from fixtures.ownership.owned import MANAGED_BY, SUITE
from fixtures.verdict.record import Report, TargetKind
from reports.formats import policy_report
from tests.reports.sample_report import hostile_report, sample_report
from tests.sockets.contracts import Missing, contracts, definition
from tests.watching import PATIENCE

pytestmark = [pytest.mark.xdist_group("sockets"), pytest.mark.test_all]

SOCKETS = Path(__file__).resolve().parents[2] / "deploy" / "sockets"
NAMESPACE = "nvsentinel"
POLICY = yaml.safe_load((SOCKETS / "policy.yaml").read_text())
GOOD, BAD = "h100-0", "h100-1"
STARTUP = {"key": "gpu-conformance.io/startup", "effect": "NoSchedule"}
READINESS = {"key": "readiness.k8s.io/gpu-conformant", "effect": "NoSchedule"}


def example(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((SOCKETS / f"{name}.yaml").read_text())
    return found


def key(item: dict[str, Any]) -> str:
    """The resource key of an object's kind."""
    group, plural = item["apiVersion"].rpartition("/")[0], re.sub("y$", "ie", item["kind"].lower()) + "s"
    return f"{group}/{plural}" if group else plural


def of_others(name: str) -> dict[str, Any]:
    """A definition of others, as their module has it."""
    try:
        return definition(contracts()[name])
    except Missing as error:
        pytest.skip(str(error))


LOOK_ALIKE = yaml.safe_load(Path(__file__).with_name("look_alike.yaml").read_text())
"""What node-readiness-controller's NodeReadinessRule takes, by its documentation: no registry has the module."""


class Stage:
    """A real control plane with idle GPU nodes, on which the suite is installed for somebody who asks it about single nodes."""

    def __init__(self, local: LocalCluster, folder: Path) -> None:
        self.admin = Cluster.from_kubeconfig(local.admin_kubeconfig)
        self.folder = folder
        self._local = local
        (folder / "policy.yaml").write_text(json.dumps(merged(local.policy, POLICY)))

    def install(self) -> None:
        """What the chart installs into the namespace, in the place of what belongs to the local cluster's own account."""
        for item in (item for role in ROLES for item in shipped(role)):
            if "namespace" not in item["metadata"]:
                self.admin.delete(key(item), item["metadata"]["name"])
        values = workload.values(access="full", mode="none", publishHours=26, policy=POLICY)
        values["Release"] = {"Namespace": NAMESPACE}
        trees = [*workload.beside(), *workload.grants(load_catalogue()), *workload.runs()]
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for item in (found for tree in trees if (found := resolved(tree, values)) is not None):
            self.create(item)

    def create(self, item: dict[str, Any]) -> None:
        answer = self.admin.create(key(item), item, namespace=item["metadata"].get("namespace", ""))
        assert (answer.ok, answer.warnings) == (True, ()), f"{item['kind']}: {answer.message} {answer.warnings}"

    def define(self, definition: dict[str, Any]) -> None:
        """Install a kind, and wait until the API server serves it."""
        definition["spec"].pop("conversion", None)
        definition.pop("status", None)
        assert self.admin.create("apiextensions.k8s.io/customresourcedefinitions", definition).ok
        named, deadline = definition["metadata"]["name"], time.monotonic() + PATIENCE
        kind = "apiextensions.k8s.io/customresourcedefinitions"

        def differs(objects: Mapping[str, dict[str, Any]]) -> str:
            held = [one for item in objects.values() for one in item.get("status", {}).get("conditions") or ()]
            return "" if any((one["type"], one["status"]) == ("Established", "True") for one in held) else "not established"

        with Observation(self.admin, kind, fields=f"metadata.name={named}") as seen:
            assert seen.await_shown(deadline, differs) == ""
        self.admin.learn_versions({f"{definition['spec']['group']}/{definition['spec']['names']['plural']}": self._version(definition)})

    @staticmethod
    def _version(definition: dict[str, Any]) -> str:
        return next(str(one["name"]) for one in definition["spec"]["versions"] if one["storage"])

    def account(self) -> Path:
        """A kubeconfig of the installed account."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        answer = self.admin.request("POST", self.admin.path("serviceaccounts", NAMESPACE, "gpu-conformance", "token"), body=request)
        path, plane = self.folder / "account.kubeconfig", self._local.plane
        write_kubeconfig(path, plane.server, plane.layout.certificates.authority, "gpu-conformance", answer.json()["status"]["token"])
        return path

    def run(self, container: dict[str, Any], **env: str) -> tuple[int, str]:
        """What a container does, as its node would start it."""
        words = [*container.get("command", ["gpu-conformance"]), *container.get("args", [])]
        assert words[0] == "gpu-conformance"
        said = {"--in-cluster": f"--kubeconfig={self.account()}"}
        said["--policy=/etc/gpu-conformance/policy.yaml"] = f"--policy={self.folder / 'policy.yaml'}"
        arguments = [re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], said.get(word, word)) for word in words[1:]]
        command = [sys.executable, "-m", "conformance.cli.main", *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=900, check=False)
        return done.returncode, done.stdout + done.stderr

    def awaited(self, kind: str, true: Callable[[dict[str, Any]], Any], namespace: str = "", **selection: str) -> dict[str, Any]:
        """The first object of the selection for which ``true`` holds."""
        with Observation(self.admin, kind, namespace, **selection) as seen:
            for objects in seen.until(time.monotonic() + PATIENCE):
                for item in objects.values():
                    if true(item):
                        return item
        raise AssertionError(f"{kind} {selection}: {objects}")

    def node(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.admin.get("nodes", name).json()
        return found

    def condition(self, name: str) -> dict[str, Any]:
        return next((one for one in self.node(name)["status"]["conditions"] if one["type"] == CONFORMANT), {})

    def taint(self, name: str, *more: dict[str, str]) -> None:
        assert self.admin.patch("nodes", name, {"spec": {"taints": [*(self.node(name)["spec"].get("taints") or []), *more]}}).ok


def merged(*documents: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for document in documents:
        for section, values in document.items():
            found[section] = {**found.get(section, {}), **values} if isinstance(values, dict) else values
    return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    try:
        binaries = find()
    except BinariesMissing as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("sockets")
    with LocalCluster.start(None, "idle-fabric", folder / "cluster", binaries.paths["kube-apiserver"].parent) as local:
        made = Stage(local, folder)
        made.install()
        made.taint("cpu-0", {"key": "test/full", "effect": "NoSchedule"})  # or its simulated kubelet would run the suite's pods
        yield made


def rendered(request: str, *nodes: str) -> dict[str, Any]:
    """NVSentinel's Job of a validation request about these nodes."""
    config = example("nvsentinel")["lifecycle-manager"]["config"]
    [test] = config["tests"].values()
    provider = config["providers"][test["provider"]]
    names = [{"NodeName": name} for name in nodes]
    data = {"ValidationRequestName": request, "TestGroupName": "gpu-conformance-group-1", "Namespace": NAMESPACE, "Nodes": names}
    data |= {"TimeoutSeconds": provider["timeoutSeconds"], "Image": test["image"], "Command": test["command"], "Env": []}
    folder = Path(__file__).with_name("render")
    command = ["go", "run", str(folder / "main.go"), config["templates"][provider["templateFile"]]]
    try:
        done = subprocess.run(command, input=json.dumps(data), capture_output=True, text=True, timeout=300, check=False)
    except FileNotFoundError:
        pytest.skip("go is not here")
    assert done.returncode == 0, done.stderr
    job: dict[str, Any] = yaml.safe_load(done.stdout)
    return job


def validated(stage: Stage, job: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The Job's conditions at its end, and what its pod said."""
    stage.create(job)
    name = job["metadata"]["name"]
    pod = stage.awaited("pods", lambda _: True, NAMESPACE, labels=f"batch.kubernetes.io/job-name={name}")
    code, said = stage.run(pod["spec"]["containers"][0])
    ended = {"exitCode": code, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
    container = {"name": "gpu-conformance", "image": "x", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": ended}}
    status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
    assert stage.admin.patch("pods", pod["metadata"]["name"], {"status": status}, NAMESPACE, subresource="status").ok
    done = stage.awaited("batch/jobs", final, NAMESPACE, fields=f"metadata.name={name}")
    return {one["type"]: one["status"] for one in done["status"]["conditions"]}, said


def final(job: dict[str, Any]) -> bool:
    return any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in job["status"].get("conditions") or ())


def test_a_validation_request_ends_with_the_verdict_and_its_startup_taint_with_it(stage: Stage) -> None:
    provider = example("nvsentinel")["lifecycle-manager"]["config"]["providers"]["gpu-conformance-provider"]
    for name in (GOOD, BAD):
        stage.taint(name, STARTUP, READINESS)
        assert stage.admin.patch("nodes", name, {"spec": {"unschedulable": True}}).ok
    conditions, said = validated(stage, rendered("node-validation-1", GOOD))
    assert conditions.get(provider["successfulCondition"]["type"]) == "True", said[-6000:]
    node = stage.node(GOOD)
    assert (stage.condition(GOOD)["status"], node["metadata"]["labels"][LABEL]) == ("True", "passed")
    held = {(one["key"], one["effect"]) for one in node["spec"]["taints"]}
    assert ("gpu-conformance.io/startup", "NoSchedule") not in held, said[-3000:]
    assert (READINESS["key"], READINESS["effect"]) in held, "it is its controller's"
    assert node["spec"]["unschedulable"] is True, "NVSentinel uncordons it"
    assert RELEASED in node["metadata"]["annotations"]


def test_a_node_that_is_wrong_fails_its_validation_and_stays_as_it_is(stage: Stage) -> None:
    provider = example("nvsentinel")["lifecycle-manager"]["config"]["providers"]["gpu-conformance-provider"]
    held = stage.node(BAD)["spec"]["taints"]
    fenced = [one for one in held if one["key"] != "nvidia.com/gpu"]
    assert stage.admin.patch("nodes", BAD, {"spec": {"taints": fenced}}).ok  # the repair lost its fence
    conditions, said = validated(stage, rendered("node-validation-2", BAD))
    assert conditions.get(provider["failedCondition"]["type"]) == "True", said[-3000:]
    assert (stage.condition(BAD)["status"], stage.node(BAD)["metadata"]["labels"][LABEL]) == ("False", "failed")
    assert stage.node(BAD)["spec"]["taints"] == fenced


def test_a_readiness_rule_takes_its_taint_off_the_node_that_passed(stage: Stage) -> None:
    """By what the controller's documentation says of a rule: its taint goes once every condition has the status that it asks for."""
    rule = example("node-readiness")
    stage.define(LOOK_ALIKE)
    stage.create(rule)
    unlike = msgspec.json.decode(msgspec.json.encode(rule).replace(b"readiness.k8s.io/gpu", b"example.com/gpu"))
    assert stage.admin.create(key(rule), {**unlike, "metadata": {"name": "unlike"}}).status == 422
    assert rule["spec"]["taint"] == READINESS
    for name in (GOOD, BAD):
        conditions = {one["type"]: one["status"] for one in stage.node(name)["status"]["conditions"]}
        if all(conditions.get(one["type"], "Unknown") == one["requiredStatus"] for one in rule["spec"]["conditions"]):
            kept = [one for one in stage.node(name)["spec"]["taints"] if one["key"] != rule["spec"]["taint"]["key"]]
            assert stage.admin.patch("nodes", name, {"spec": {"taints": kept}}).ok
    assert [READINESS in stage.node(name)["spec"]["taints"] for name in (GOOD, BAD)] == [False, True]
    chosen = rule["spec"]["nodeSelector"]["matchLabels"].items()
    assert chosen <= stage.node(GOOD)["metadata"]["labels"].items()


def test_karpenters_own_schema_takes_the_pool_whose_nodes_start_with_the_taint(stage: Stage) -> None:
    stage.define(of_others("karpenter"))
    pool = example("karpenter")
    stage.create(pool)
    assert pool["spec"]["template"]["spec"]["startupTaints"] == [STARTUP]
    assert [STARTUP["key"]] == POLICY["return"]["release"]


def test_cluster_apis_own_schema_takes_the_health_check_and_it_means_the_node_that_failed(stage: Stage) -> None:
    stage.define(of_others("cluster-api"))
    check = example("cluster-api")
    stage.create(check)
    for name, unhealthy in ((GOOD, False), (BAD, True)):
        held = stage.condition(name)
        asked = check["spec"]["checks"]["unhealthyNodeConditions"]
        assert any((one["type"], one["status"]) == (held["type"], held["status"]) for one in asked) is unhealthy


def test_the_policy_reports_own_schema_takes_every_report_with_each_of_its_fields(stage: Stage) -> None:
    for name in ("policyreports", "clusterpolicyreports"):
        stage.define(of_others(name))
    for report in (sample_report(TargetKind.LIVE), in_one_namespace(hostile_report())):
        items = json.loads(policy_report.render(report))["items"]
        assert {item["kind"] for item in items} == {"PolicyReport", "ClusterPolicyReport"}
        for item in items:
            if namespace := item["metadata"].get("namespace", ""):
                stage.admin.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            answer = stage.admin.create(key(item), item, namespace=namespace, dry_run=True)
            assert (answer.status, answer.warnings, answer.json()["results"]) == (201, (), item["results"]), answer.message
    unlike = {**items[0], "results": [{**items[0]["results"][0], "severity": "must"}]}
    assert stage.admin.create(key(unlike), unlike, dry_run=True).status == 422


def in_one_namespace(report: Report) -> Report:
    """As an API server has namespaces: none has a hostile name. Every other subject belongs to the cluster."""
    for at, result in enumerate(report.results):
        for subject in result.subjects:
            subject.namespace = "team-a" if at % 2 else ""
    return report


def test_the_validation_step_of_a_driver_upgrade_waits_for_the_verdict(stage: Stage) -> None:
    """The GPU Operator asks for all pods of the node with its validator's label, and for all of them to be ready."""
    made = example("gpu-operator")
    made["metadata"]["namespace"] = NAMESPACE  # where the account is installed here
    stage.create(made)
    state = "nvidia.com/gpu-driver-upgrade-state"
    for name in (GOOD, BAD):
        labels = {state: "validation-required", "nvidia.com/gpu.deploy.operator-validator": "true"}
        held = [one for one in stage.node(name)["spec"]["taints"] if one not in (STARTUP, READINESS)]
        assert stage.admin.patch("nodes", name, {"metadata": {"labels": labels}, "spec": {"taints": held}}).ok
    for name, expected in ((GOOD, 0), (BAD, 1)):
        pod = stage.awaited("pods", lambda _: True, NAMESPACE, labels="app=nvidia-operator-validator", fields=f"spec.nodeName={name}")
        [judge] = pod["spec"]["initContainers"]
        code, said = stage.run(judge, NODE_NAME=name)
        assert code == expected, said[-6000:]
    everywhere = stage.admin.request("GET", stage.admin.path("pods", NAMESPACE), query={"labelSelector": "app=nvidia-operator-validator"})
    assert {item["spec"]["nodeName"] for item in everywhere.json()["items"]} == {GOOD, BAD}, "no other node is judged"
    assert stage.admin.patch("nodes", GOOD, {"metadata": {"labels": {state: "upgrade-done"}}}).ok
    with Observation(stage.admin, "pods", NAMESPACE, labels="app=nvidia-operator-validator", fields=f"spec.nodeName={GOOD}") as seen:
        assert seen.await_shown(time.monotonic() + PATIENCE, ", ".join) == ""
    assert stage.admin.delete("apps/daemonsets", made["metadata"]["name"], NAMESPACE).ok


def blocking(stage: Stage, node: str) -> list[str]:
    """The pods for which kured on a node puts a reboot off."""
    fields = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown"
    found = set[str]()
    for selector in example("kured")["configuration"]["blockingPodSelector"]:
        answer = stage.admin.request("GET", stage.admin.path("pods"), query={"labelSelector": selector, "fieldSelector": fields})
        found.update(item["metadata"]["name"] for item in answer.json()["items"])
    return sorted(found)


def test_kured_waits_for_what_the_suite_shows(stage: Stage) -> None:
    """It asks as kured does (docs/facts/nodes.md#what-keeps-kured-from-a-reboot)."""
    values = example("kured")["configuration"]
    of_run = rendered("x", GOOD)["spec"]["template"]["metadata"]["labels"]
    for name, labels in (("run", of_run), ("probe", {MANAGED_BY: SUITE}), ("tenant", {"app": "x"})):
        spec = {"nodeName": GOOD, "containers": [{"name": "x", "image": "x"}], "restartPolicy": "Never"}
        stage.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": spec}
        )
        assert blocking(stage, GOOD) == ([] if name == "tenant" else [name])
        assert blocking(stage, BAD) == []
        assert stage.admin.patch("pods", name, {"status": {"phase": "Succeeded"}}, "default", subresource="status").ok
    assert blocking(stage, GOOD) == []
    alerts = [one["alert"] for group in rule_object(load_catalogue())["spec"]["groups"] for one in group["rules"]]
    counting = [one for one in alerts if bool(re.search(values["alertFilterRegexp"], one)) is values["alertFilterMatchOnly"]]
    assert counting == ["GPUConformanceNodeNotConformant"]
    fences = {(taint["key"], taint["effect"]) for name in (GOOD, BAD) for taint in stage.node(name)["spec"]["taints"]}
    tolerated = {one["key"]: one.get("effect") for one in example("kured")["tolerations"]}
    assert {key for key, effect in fences if tolerated.get(key, "no") in (None, effect)} >= {"nvidia.com/gpu"}
    labels = dict(text.split("=") for text in values["preRebootNodeLabels"])
    assert stage.admin.patch("nodes", GOOD, {"metadata": {"labels": labels}}).ok
    assert stage.node(GOOD)["metadata"]["labels"][LABEL] == NodeVerdict.UNKNOWN
    [judged] = example("new-nodes")["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"][0]["args"][-1:]
    selected = named_nodes(judged.partition("=")[2].split(","), [as_node(stage.node(name)) for name in (GOOD, BAD)])
    assert selected == {GOOD, BAD}


def test_the_job_for_new_nodes_meets_the_restricted_standard(stage: Stage) -> None:
    restricted = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    assert stage.admin.patch("namespaces", NAMESPACE, {"metadata": {"labels": restricted}}).ok
    for item in (example("new-nodes"), example("gpu-operator")):
        item["metadata"]["namespace"] = NAMESPACE
        answer = stage.admin.create(key(item), item, namespace=NAMESPACE, dry_run=True)
        assert (answer.status, answer.warnings) == (201, ()), answer.message


def test_a_preflight_check_runs_in_a_restricted_pod_and_fails_without_a_device(stage: Stage) -> None:
    [check] = example("nvsentinel")["preflight"]["initContainers"]
    restricted = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
    stage.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "checked", "labels": restricted}})
    train = {**{field: check[field] for field in ("image", "securityContext")}, "name": "train"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train", "namespace": "checked"}}
    answer = stage.admin.create(
        "pods", {**pod, "spec": {"initContainers": [check], "containers": [train]}}, namespace="checked", dry_run=True
    )
    assert (answer.status, answer.warnings) == (201, ()), answer.message
    code, said = stage.run(check)
    assert code == 10, said
    assert "is not there" in said
