"""What admission writes into a pod (docs/facts/admission.md#default-tolerations, docs/facts/admission.md#priority)."""

from __future__ import annotations

from fixtures.simulator.admission import AdmissionSwitches
from tests.simulator.admission.cluster import GPU, Objects, admit, container, gpu, gpu_pod, pod, refusal, request

MIG = "nvidia.com/mig-1g.10gb"
WITHOUT = AdmissionSwitches(extended_resource_toleration=False)


def injected(key: str) -> dict[str, str]:
    return {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def test_only_the_key_of_the_requested_resource_is_tolerated() -> None:
    tolerations = admit(gpu_pod("1", resource=MIG))[0]["spec"]["tolerations"]
    assert injected(MIG) in tolerations
    assert all(t["key"] != GPU for t in tolerations)


def test_init_containers_count_and_keys_come_sorted() -> None:
    asked = pod(container(resources=gpu("1")), initContainers=[container("init", resources=gpu("1", name="amd.com/gpu"))])
    keys = [t["key"] for t in admit(asked)[0]["spec"]["tolerations"] if t["effect"] == "NoSchedule"]
    assert keys == ["amd.com/gpu", GPU]


def test_cpu_pods_and_switched_off_plugins_add_nothing() -> None:
    assert all(t["effect"] == "NoExecute" for t in admit(pod())[0]["spec"]["tolerations"])
    assert all(t["effect"] == "NoExecute" for t in admit(gpu_pod("1"), switches=WITHOUT)[0]["spec"]["tolerations"])


def test_admitting_twice_changes_nothing() -> None:
    once, _ = admit(gpu_pod("1"))
    again, _ = admit(request(once, verb="update", old=once))
    assert again["spec"]["tolerations"] == once["spec"]["tolerations"]


def test_default_tolerations() -> None:
    tolerations = admit(pod())[0]["spec"]["tolerations"]
    assert [(t["key"], t["tolerationSeconds"]) for t in tolerations] == [
        ("node.kubernetes.io/not-ready", 300),
        ("node.kubernetes.io/unreachable", 300),
    ]
    everything = pod(tolerations=[{"operator": "Exists"}])
    assert admit(everything)[0]["spec"]["tolerations"] == [{"operator": "Exists"}]


def test_pod_defaults() -> None:
    stored, _ = admit(pod(container(image="registry.example:5000/team/app", ports=[{"containerPort": 80}])))
    spec = stored["spec"]
    assert spec["restartPolicy"] == "Always"
    assert spec["serviceAccountName"] == "default"
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    assert (spec["terminationGracePeriodSeconds"], spec["enableServiceLinks"]) == (30, True)
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert stored["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_quantities_are_stored_in_canonical_form() -> None:
    resources = {"limits": {"cpu": "2000m", "memory": "1024Mi"}}
    stored, _ = admit(pod(container(resources=resources)))
    assert stored["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}
    assert stored["status"]["qosClass"] == "Guaranteed"


def test_priority_classes() -> None:
    classes = Objects().put(
        "scheduling.k8s.io/priorityclasses",
        {"metadata": {"name": "batch"}, "value": -5, "preemptionPolicy": "Never", "globalDefault": True},
        {"metadata": {"name": "high"}, "value": 1000},
    )
    spec = admit(pod(priorityClassName="high"), classes)[0]["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "PreemptLowerPriority")
    spec = admit(pod(), classes)[0]["spec"]
    assert (spec["priorityClassName"], spec["priority"], spec["preemptionPolicy"]) == ("batch", -5, "Never")
    assert admit(pod(priorityClassName="system-node-critical"))[0]["spec"]["priority"] == 2_000_001_000
    error = refusal(pod(priorityClassName="urgent"), classes)
    assert (error.code, error.reason) == (403, "Forbidden")
    assert error.message == 'pods "train" is forbidden: no PriorityClass with name urgent was found'
    assert "must not be provided in pod spec" in refusal(pod(priorityClassName="high", priority=7), classes).message
