"""A thief has the token of the account with the full role: every right of the role holds for what is a run's, on real Kubernetes."""

import itertools
import threading
import time
from typing import Any

import pytest

from deploy.rights import Right
from fixtures.cluster.client import Answer, Cluster
from fixtures.cluster.kinds import KINDS, kind_of
from fixtures.localcluster.control_plane.account import suite_kubeconfig
from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.ownership.owned import CLUSTER_SCOPED_KEYS, new_run_id
from fixtures.probes.pods import PodShape, probe_pod
from tests.simulator.localcluster.rights.roles import key_of, rights_of_role, text_of
from tests.simulator.localcluster.rights.targets import DEFINITIONS, definition

pytestmark = [pytest.mark.xdist_group("accounts"), pytest.mark.test_all]

RUN = f"gpu-conformance-{new_run_id()}"
OWN = f"{RUN}-rest"
OTHERS = ("default", "kube-system", "gpu-conformance", "gpu-conformance-chaos", f"gpu-conformance-chaos-{new_run_id()}", f"x-{RUN}")
WRITES = sorted(right for right in rights_of_role("full") if right[2] not in ("get", "list", "watch"))
NUMBERS = itertools.count()
LABELLED = {"metadata": {"labels": {"a": "b"}}}


def device(**more: Any) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "c", **more}}]}}


BODIES: dict[str, dict[str, Any]] = {
    "pods": {"spec": probe_pod(PodShape(name="p", image="registry.example/p:1", script="true"))["spec"] | {"priorityClassName": RUN}},
    "batch/jobs": {
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.example/p:1"}]}}}
    },
    "services": {"spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]}},
    "resourcequotas": {"spec": {"hard": {"services.nodeports": "0"}}},
    "networking.k8s.io/networkpolicies": {"spec": {"podSelector": {}}},
    "scheduling.k8s.io/priorityclasses": {"value": -7, "preemptionPolicy": "Never"},
    "scheduling.k8s.io/podgroups": {"spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}},
    "scheduling.k8s.io/workloads": {"spec": {"podGroupTemplates": [{"name": "m", "schedulingPolicy": {"gang": {"minCount": 1}}}]}},
    "resource.k8s.io/resourceclaims": {"spec": device()},
    "resource.k8s.io/resourceclaimtemplates": {"spec": {"spec": device()}},
    "kueue.x-k8s.io/clusterqueues": {"spec": {"namespaceSelector": {}}},
}


@pytest.fixture(scope="module")
def admin(plane: ControlPlane) -> Cluster:
    cluster = Cluster.from_kubeconfig(plane.kubeconfig)
    for key in {key_of(right) for right in WRITES}:
        if cluster.request("GET", cluster.path(key)).status == 404:
            assert cluster.create(DEFINITIONS, definition(key)).status in (201, 409)
    return cluster


@pytest.fixture(scope="module")
def thief(plane: ControlPlane, admin: Cluster) -> Cluster:
    """A session with the token, once the API server enforces the policy and serves every kind of the role."""
    cluster, deadline = Cluster.from_kubeconfig(suite_kubeconfig(plane, "full")), time.monotonic() + 60
    for name in OTHERS:
        answer = admin.create("namespaces", body("namespaces", name))
        assert answer.ok or answer.status == 409, answer.message
    while not refused(cluster.create("configmaps", body("configmaps", f"early-{next(NUMBERS)}"), namespace="default")):
        assert time.monotonic() < deadline, "the policy was never enforced"
        threading.Event().wait(0.2)
    for key in {key_of(right) for right in WRITES}:
        while admin.request("GET", admin.path(key)).status == 404:
            assert time.monotonic() < deadline, f"{key} is never served"
            threading.Event().wait(0.2)
    assert cluster.create("namespaces", body("namespaces", OWN)).ok
    assert cluster.create("scheduling.k8s.io/priorityclasses", body("scheduling.k8s.io/priorityclasses", RUN)).ok
    return cluster


def body(key: str, name: str, **more: Any) -> dict[str, Any]:
    group, kind = key.rpartition("/")[0], KINDS.get(key)
    version = kind.versions[0] if kind else "v1"
    return {
        "apiVersion": f"{group}/{version}" if group else version,
        "kind": kind_of(key),
        "metadata": {"name": name},
        **BODIES.get(key, {}),
        **more,
    }


def refused(answer: Answer, why: str = "whose names a run gives") -> bool:
    """Whether the policy refused it, and nothing else."""
    return answer.status == 403 and why in answer.message


def attempt(thief: Cluster, admin: Cluster, right: Right, place: str) -> Answer:
    """Use a right on an object in a namespace, or of a name, of ``place``. What is to be changed is there before."""
    key, (_, _, verb) = key_of(right), right
    namespaced = key not in CLUSTER_SCOPED_KEYS
    name, space = (f"n-{next(NUMBERS)}", place) if namespaced else (place, "")
    if not namespaced and (place in (OWN, RUN) or verb == "create"):
        name = f"{place}-{next(NUMBERS)}"
    if verb == "create":
        return thief.create(key, body(key, name), namespace=space)
    made = admin.create(key, body(key, name), namespace=space)
    assert made.ok or made.status == 409, made.message
    return thief.delete(key, name, space) if verb == "delete" else thief.patch(key, name, LABELLED, space)


@pytest.mark.parametrize("right", WRITES, ids=text_of)
def test_a_right_holds_for_what_is_a_runs_and_for_nothing_else(thief: Cluster, admin: Cluster, right: Right) -> None:
    for place in OTHERS:
        answer = attempt(thief, admin, right, place)
        kept = place in ("default", "kube-system") and "may not be deleted" in answer.message  # by the API server itself
        assert refused(answer) or kept, f"{place}: {answer.status} {answer.message}"
    answer = attempt(thief, admin, right, OWN)
    assert answer.ok, answer.message


CONTAINER = BODIES["pods"]["spec"]["containers"][0]
PRIVATE = CONTAINER["securityContext"]
HOST, PREEMPTS = "a probe has no host namespace", "no probe preempts"
PODS: list[tuple[str, dict[str, Any]]] = [
    (HOST, {"hostPID": True}),
    (HOST, {"hostIPC": True}),
    (HOST, {"hostNetwork": True}),
    (HOST, {"volumes": [{"name": "v", "hostPath": {"path": "/var/log"}}]}),
    (HOST, {"containers": [{**CONTAINER, "securityContext": {"privileged": True}}]}),
    (HOST, {"containers": [{**CONTAINER, "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}]}),
    (HOST, {"containers": [{**CONTAINER, "ports": [{"containerPort": 80, "hostPort": 80}]}]}),
    (HOST, {"initContainers": [{**CONTAINER, "name": "i", "securityContext": {"privileged": True}}]}),
    (HOST, {"hostUsers": False, "containers": [{**CONTAINER, "securityContext": {"procMount": "Unmasked"}}]}),
    (PREEMPTS, {"priorityClassName": "system-node-critical"}),
    (PREEMPTS, {"priorityClassName": ""}),
    (PREEMPTS, {"nodeName": "gpu-0"}),
    ("", {"containers": [{**CONTAINER, "securityContext": {"capabilities": {"drop": ["ALL"], "add": ["IPC_LOCK"]}}}]}),
    ("", {"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}, {"name": "c", "configMap": {"name": "c"}}]}),
]
FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    *(("pods", why, {"spec": {**BODIES["pods"]["spec"], **change}}) for why, change in PODS),
    ("services", "headless", {"spec": {"ports": [{"port": 80}]}}),
    ("services", "headless", {"spec": {**BODIES["services"]["spec"], "externalIPs": ["192.0.2.1"]}}),
    ("services", "headless", {"spec": {"type": "ExternalName", "externalName": "registry.example"}}),
    ("scheduling.k8s.io/priorityclasses", "below zero", {"value": 1000}),
    ("scheduling.k8s.io/priorityclasses", "below zero", {"globalDefault": True}),
    ("scheduling.k8s.io/priorityclasses", "below zero", {"preemptionPolicy": "PreemptLowerPriority"}),
    ("kueue.x-k8s.io/clusterqueues", "in no cohort", {"spec": {"cohort": "tenants"}}),
    ("kueue.x-k8s.io/clusterqueues", "in no cohort", {"spec": {"cohortName": "tenants"}}),
    ("resource.k8s.io/resourceclaims", "with admin access", {"spec": device(adminAccess=True)}),
    ("resource.k8s.io/resourceclaimtemplates", "with admin access", {"spec": {"spec": device(adminAccess=True)}}),
]


@pytest.mark.parametrize(("key", "why", "more"), FIELDS)
def test_what_a_run_never_asks_for_is_refused_in_its_own_namespace_too(
    thief: Cluster, admin: Cluster, key: str, why: str, more: dict[str, Any]
) -> None:
    if "admin access" in why:  # the API server itself refuses it elsewhere
        assert admin.patch("namespaces", OWN, {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}).ok
    name, space = (f"f-{next(NUMBERS)}", OWN) if key not in CLUSTER_SCOPED_KEYS else (f"{RUN}-{next(NUMBERS)}", "")
    answer = thief.create(key, body(key, name, **more), namespace=space)
    assert refused(answer, why) if why else answer.ok, answer.message


def test_a_dry_run_stays_free_and_a_generated_name_does_not(thief: Cluster) -> None:
    assert thief.create("pods", body("pods", "dry", spec={**BODIES["pods"]["spec"], "hostPID": True}), namespace="default", dry_run=True).ok
    assert refused(thief.create("namespaces", {**body("namespaces", "x"), "metadata": {"generateName": "tenant-"}}))
