"""What admission writes into a pod (docs/facts/admission.md#default-tolerations, docs/facts/admission.md#priority)."""

from tests.simulator.admission.cluster import Objects, admit, container, pod, refusal


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
