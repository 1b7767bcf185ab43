"""A cluster whose every text wants out of the report: markup, terminal escapes, reordered lines, megabytes, credentials."""

from itertools import count
from typing import Any

MARKUP = (
    "<script>alert('pwn')</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></script><svg/onload=alert(2)>",
    "javascript:alert(3)",
    "{{ 7*7 }}{% raw %}",
    "]]><x/>&lt;&#60;",
    "`$(reboot)` | cell | **bold** [a](javascript:alert(4))",
)
CONTROLS = ("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\u202egnp.exe\u2066", "\x00\x08\r\n", "\u200b\ufeff\u2028", "\x9b2J")
LONG = "A" * 100_000

SIGNATURE = "c2lnbmF0dXJlLW1hcmtlci1vZi10aGlzLXRlc3Q"
JWT = f"eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJ{'cGF5bG9hZC1tYXJrZXI' * 8}.{SIGNATURE}"
KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBmarker"
PRIVATE_KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}\n{KEY_BODY}\n-----END RSA PRIVATE KEY-----"
BEARER = "b3BhcXVlLWJlYXJlci1tYXJrZXI0NzEx"
OPAQUE = "hf_opaqueMarkerOfThisTest4711"
PASSWORD = "passwordMarkerOfThisTest"
SECRETS = (SIGNATURE, "cGF5bG9hZC1tYXJrZXI", KEY_BODY, BEARER, OPAQUE, PASSWORD)
"""What must appear nowhere: the parts of credentials that cannot be there by chance."""

SHOWN = (JWT, PRIVATE_KEY, f"Authorization: Bearer {BEARER}", f"https://user:{PASSWORD}@registry.example/x")
"""Credentials by their form: wherever a report shows them, it must not show them."""

TEXTS = (*MARKUP, *CONTROLS, LONG, *SHOWN)


def metadata(name: str, namespace: str = "", **labels: str) -> dict[str, Any]:
    """Metadata with every text as label and annotation."""
    found: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{abs(hash((name, namespace)))}",
        "labels": {**{f"hostile/{n}": text for n, text in enumerate(TEXTS)}, **dict.fromkeys(MARKUP, "1"), **labels},
        "annotations": {**{f"hostile/{n}": text for n, text in enumerate(TEXTS)}, "token": OPAQUE, "cdi.k8s.io/x": JWT},
    }
    return {**found, "namespace": namespace} if namespace else found


def a_node(text: str) -> dict[str, Any]:
    amounts = {
        "cpu": "64",
        "memory": "512Gi",
        "pods": "110",
        "nvidia.com/gpu": "8",
        f"nvidia.com/mig-{text[:40]}": "1",
        f"rdma/{text}": text,
    }
    labels = {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.count": text,
        "nvidia.com/gpu.product": text,
        "nvidia.com/gpu.memory": text,
        "nvidia.com/mig.strategy": text,
        "nvidia.com/mig.config.state": text,
        "nvidia.com/gfd.timestamp": text,
        "nvidia.com/cuda.driver-version.full": text,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(f"node-{text}", **labels),
        "spec": {"taints": [{"key": text, "value": text, "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": {**amounts, "nvidia.com/gpu": text},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": text, "message": text},
                {"type": text, "status": text, "message": text},
            ],
            "nodeInfo": {"kubeletVersion": text, "bootID": text},
        },
    }


def a_pod(text: str, node: str, number: int) -> dict[str, Any]:
    container = {
        "name": f"c-{text}",
        "image": f"registry.example/{text}:latest",
        "command": ["sh", "-c", text],
        "env": [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": text},
            {"name": "HF_TOKEN", "value": OPAQUE},
            {"name": text, "value": PRIVATE_KEY},
            {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": text, "key": text}}},
        ],
        "envFrom": [{"configMapRef": {"name": text}, "prefix": text}],
        "volumeMounts": [{"name": text, "mountPath": f"/var/run/nvidia-container-devices/{text}"}],
        "resources": {"limits": {"nvidia.com/gpu": "1" if number % 2 else text, text: text}, "requests": {"nvidia.com/gpu": "2"}},
        "securityContext": {"privileged": True, "runAsUser": text if number % 3 else 0, "capabilities": {"add": [text]}},
    }
    made = metadata(f"pod-{number}-{text}", f"team-{text}")
    made["ownerReferences"] = [{"kind": "Job", "name": text, "uid": text, "controller": True}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": made,
        "spec": {
            "nodeName": node if number % 2 else "",
            "schedulerName": text,
            "runtimeClassName": text,
            "containers": [container],
            "volumes": [{"name": text, "hostPath": {"path": f"/dev/nvidia{text}"}}],
            "tolerations": [{"key": text, "operator": text, "value": text, "effect": text}],
            "hostIPC": True,
        },
        "status": {
            "phase": "Running" if number % 2 else "Pending",
            "message": text,
            "reason": text,
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": text, "message": text}],
            "containerStatuses": [{"name": text, "imageID": text, "state": {"waiting": {"reason": text, "message": text}}}],
        },
    }


def further(text: str) -> list[dict[str, Any]]:
    """Other kinds that requirements read."""
    template = {"metadata": metadata("t"), "spec": a_pod(text, "", 2)["spec"]}
    workloads = [("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job"), ("ray.io/v1", "RayCluster")]
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata(f"team-{text}", **{"pod-security.kubernetes.io/enforce": text})},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(text, f"team-{text}"),
            "data": {"NVIDIA_VISIBLE_DEVICES": text, "x": OPAQUE},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata(text, f"team-{text}"),
            "spec": {"hard": {"requests.nvidia.com/gpu": text, text: text}},
            "status": {"hard": {"requests.nvidia.com/gpu": text}, "used": {text: text}},
        },
        {
            "apiVersion": "nvidia.com/v1",
            "kind": "ClusterPolicy",
            "metadata": metadata(text),
            "spec": {"mig": {"strategy": text}, "devicePlugin": {"config": {"name": text, "default": text}}, "driver": {"version": text}},
            "status": {"state": text, "conditions": [{"type": "Ready", "status": "False", "reason": text, "message": text}]},
        },
        {
            "apiVersion": "mellanox.com/v1alpha1",
            "kind": "NicClusterPolicy",
            "metadata": metadata(text),
            "spec": {"rdmaSharedDevicePlugin": {"config": text}},
            "status": {"state": text, "appliedStates": [{"name": text, "state": text}]},
        },
        *(
            {
                "apiVersion": api,
                "kind": kind,
                "metadata": metadata(text, f"team-{text}"),
                "spec": {"selector": {"matchLabels": {text: text}}, "template": template, "parallelism": 4, "replicas": 4},
                "status": {"numberReady": 0, "desiredNumberScheduled": 3},
            }
            for api, kind in workloads
        ),
    ]


def objects() -> list[dict[str, Any]]:
    """Everything, with every text in every place."""
    number = count()
    found = []
    for text in TEXTS:
        node = a_node(text)
        found += [node, *(a_pod(text, node["metadata"]["name"], next(number)) for _ in range(2)), *further(text)]
    return found
