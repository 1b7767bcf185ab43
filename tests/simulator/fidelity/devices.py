"""Requests about devices that both API servers are asked: what drivers, administrators and users of claims write."""

from typing import Any

from hypothesis import strategies as st

from tests.simulator.fidelity.parts import KEYS, NAMES, QUANTITIES, VALUES, one_of, some

Json = dict[str, Any]

ADMIN = "admin"
"""A namespace in which claims may ask for admin access."""

DRIVERS = one_of("gpu.nvidia.com", "gpu.nvidia.com", "GPU.example.com", "gpu", "", "a/b", "-a", "x" * 63, "x" * 64, "a..b", "ä")
POOLS = one_of("node-0", "node-0", "rack/node-0", "", "/", "a//b", "Node", "x" * 253, "x" * 254, "a/Node")
CLASS_NAMES = one_of("gpu.nvidia.com", "gpu", "Gpu", "a/b", "x" * 253, "x" * 254)
REQUESTS = one_of("gpu", "gpu", "other", "gpu/small", "gpu/none", "none", "", "a/b/c", "Gpu", "x" * 64)
ATTRIBUTE_NAMES = one_of(
    "model", "gpu.nvidia.com/uuid", "resource.kubernetes.io/pcieRoot", "", "/model", "gpu.nvidia.com/", "a/b/c", "1st", "with-dash",
    "x" * 32,
    "x" * 33, "Bad_Domain/model", "x" * 64 + "/model",
)  # fmt: skip
SEMVERS = one_of("1.2.3", "580.95.5", "1.2", "v1.2.3", "1.2.3-rc.1+build.7", "01.2.3", "", "1.2.3-", "1.2.3-" + "x" * 60)
TEXTS = one_of("NVIDIA H100", "", "x" * 64, "x" * 65, "ä" * 33)
NODE_NAMES = one_of("node-0", "", "Node", "x" * 254)
EFFECTS = one_of("NoSchedule", "NoExecute", "None", "PreferNoSchedule", "", "noschedule")
PARAMETERS = one_of({}, {"kind": "GpuConfig"}, {"kind": "GpuConfig"}, [], "text", 1, None, {"text": "x" * 10240})

EXPRESSIONS = one_of(
    'device.driver == "gpu.nvidia.com"',
    "device.attributes['gpu.nvidia.com'].type == 'gpu'",
    'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].productName.startsWith("NVIDIA")',
    "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('40Gi')) >= 0",
    "device.allowMultipleAllocations == true",
    "true",
    "device.driver == ('gpu.nvidia.com'",
    "",
    "x" * 10241,
)
SELECTORS = st.lists(
    one_of({}, {"cel": None}) | st.fixed_dictionaries({"cel": st.fixed_dictionaries({"expression": EXPRESSIONS})}), max_size=2
)
MANY_SELECTORS = one_of(*[[{"cel": {"expression": "true"}}] * number for number in (32, 33)])
CONFIGURATION = some({"opaque": st.fixed_dictionaries({}, optional={"driver": DRIVERS, "parameters": PARAMETERS})})
TAINT = st.fixed_dictionaries(
    {}, optional={"key": KEYS, "value": VALUES, "effect": EFFECTS, "timeAdded": one_of("2026-11-01T10:00:00Z")}
) | st.fixed_dictionaries({"key": one_of("gpu.nvidia.com/xid"), "effect": one_of("NoSchedule", "NoExecute", "None")})
NODE_SELECTOR = one_of(
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
    {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]},
    {"nodeSelectorTerms": []},
    {"nodeSelectorTerms": [{}, {}]},
    {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}]},
)

TOLERATION = st.fixed_dictionaries(
    {},
    optional={
        "key": KEYS,
        "operator": one_of("Exists", "Equal", "", "Other"),
        "value": VALUES,
        "effect": EFFECTS,
        "tolerationSeconds": one_of(0, 30, -1),
    },
)
_WISH: dict[str, st.SearchStrategy[Any]] = {
    "deviceClassName": CLASS_NAMES | one_of("", None),
    "allocationMode": one_of("ExactCount", "All", "", "Most"),
    "count": one_of(0, 1, 2, -1, 2**31, 2**63 - 1, 1.5, "2"),
    "selectors": SELECTORS | MANY_SELECTORS,
    "tolerations": st.lists(TOLERATION, max_size=2),
    "capacity": st.fixed_dictionaries({"requests": st.dictionaries(one_of("memory", "gpu.nvidia.com/memory"), QUANTITIES, max_size=1)}),
}
WISH = some(_WISH, 2).map(lambda more: {"deviceClassName": "gpu.nvidia.com", **more})
EXACT = st.tuples(WISH, one_of({}, {}, {}, {"adminAccess": True}, {"adminAccess": False})).map(lambda drawn: {**drawn[0], **drawn[1]})
ALTERNATIVE = st.tuples(WISH, one_of("small", "small", "large", "") | NAMES).map(lambda drawn: {"name": drawn[1], **drawn[0]})
REQUEST = st.tuples(
    one_of("gpu", "gpu", "other") | NAMES,
    st.fixed_dictionaries({"exactly": EXACT})
    | st.fixed_dictionaries({"exactly": EXACT})
    | st.fixed_dictionaries({"firstAvailable": st.lists(ALTERNATIVE, max_size=3)})
    | one_of({}, {"exactly": {}}, {"exactly": {"deviceClassName": "gpu"}, "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]},
             {"firstAvailable": [{"name": f"a{number}", "deviceClassName": "gpu"} for number in range(9)]}),
).map(lambda drawn: {"name": drawn[0], **drawn[1]})  # fmt: skip
CONSTRAINT = st.fixed_dictionaries(
    {}, optional={"requests": st.lists(REQUESTS, max_size=2), "matchAttribute": ATTRIBUTE_NAMES, "distinctAttribute": ATTRIBUTE_NAMES}
)
CLAIM_CONFIGURATION = st.tuples(CONFIGURATION, st.lists(REQUESTS, max_size=2)).map(lambda drawn: {"requests": drawn[1], **drawn[0]})
_GOOD_REQUEST: Json = {"name": "gpu", "firstAvailable": [{"name": "small", "deviceClassName": "gpu.nvidia.com"}]}
CLAIM_SPEC = st.fixed_dictionaries(
    {
        "devices": st.fixed_dictionaries({"requests": st.lists(REQUEST, max_size=2)})
        | some({"constraints": st.lists(CONSTRAINT, max_size=2), "config": st.lists(CLAIM_CONFIGURATION, max_size=2)}).map(
            lambda more: {"requests": [_GOOD_REQUEST], **more}
        )
        | one_of({}, {"requests": [{"name": f"r{number}", "exactly": {"deviceClassName": "gpu"}} for number in range(33)]})
    }
)

ATTRIBUTE = some(
    {
        "string": TEXTS,
        "int": one_of(0, 7, -1, 2**63 - 1),
        "bool": one_of(True, False),
        "version": SEMVERS,
        "strings": st.lists(TEXTS, max_size=2),
        "versions": st.lists(SEMVERS, max_size=2),
        "ints": one_of([], [1]),
        "bools": one_of([], [True]),
    },
    2,
)
COUNTERS = st.dictionaries(
    one_of("memory", "slices", "Memory", "", "x" * 64), st.fixed_dictionaries({"value": one_of("1", "40Gi", "0")}), max_size=2
)
AMOUNTS = one_of("1Gi", "2Gi", "3Gi", "10Gi", "80Gi", "100Gi", "0", "500M")
RANGE = st.fixed_dictionaries({}, optional={"min": AMOUNTS, "max": AMOUNTS, "step": AMOUNTS}) | st.fixed_dictionaries(
    {"min": one_of("1Gi", "2Gi"), "max": AMOUNTS, "step": AMOUNTS}
)
POLICY = some({"default": AMOUNTS, "validValues": st.lists(AMOUNTS, max_size=3), "validRange": RANGE}) | st.fixed_dictionaries(
    {"default": one_of("1Gi", "3Gi")}, optional={"validValues": st.lists(AMOUNTS, max_size=3) | one_of(["1Gi"] * 11), "validRange": RANGE}
)
"""What claims may ask for of a capacity that they share."""
SHARED = st.fixed_dictionaries(
    {
        "name": one_of("gpu-0"),
        "allowMultipleAllocations": one_of(True),
        "capacity": st.fixed_dictionaries({"memory": st.fixed_dictionaries({"value": one_of("80Gi", "10Gi"), "requestPolicy": POLICY})}),
    }
)
_DEVICE: dict[str, st.SearchStrategy[Any]] = {
    "name": NAMES,
    "attributes": st.dictionaries(ATTRIBUTE_NAMES, ATTRIBUTE, max_size=2)
    | one_of({f"a{number}": {"int": number} for number in range(33)}, {"a": {"ints": list(range(49))}}),
    "capacity": st.dictionaries(ATTRIBUTE_NAMES, st.fixed_dictionaries({"value": QUANTITIES}), max_size=2)
    | one_of({"memory": {"value": "80Gi", "requestPolicy": {"default": "1Gi"}}})
    | st.fixed_dictionaries({"memory": st.fixed_dictionaries({"value": one_of("80Gi"), "requestPolicy": POLICY})}),
    "taints": st.lists(TAINT, max_size=2) | one_of([{"key": f"k{number}", "effect": "None"} for number in range(17)]),
    "consumesCounters": st.lists(
        st.fixed_dictionaries({}, optional={"counterSet": NAMES | one_of("gpu-0"), "counters": COUNTERS}), max_size=3
    ),
    "allowMultipleAllocations": one_of(True, False),
    "nodeName": NODE_NAMES,
    "allNodes": one_of(True, False),
    "bindingConditions": one_of(["a.example/ready"], ["bad name"], ["a", "b", "c", "d", "e"]),
}
DEVICE = some(_DEVICE, 2).map(lambda more: {"name": "gpu-0", **more}) | SHARED
_SLICE: dict[str, st.SearchStrategy[Any]] = {
    "driver": DRIVERS,
    "pool": st.fixed_dictionaries({}, optional={"name": POOLS, "generation": one_of(0, 1, -1), "resourceSliceCount": one_of(0, 1, 2, -1)}),
    "nodeName": NODE_NAMES,
    "allNodes": one_of(True, False),
    "nodeSelector": NODE_SELECTOR,
    "perDeviceNodeSelection": one_of(True, False),
    "devices": one_of(
        [], *[[{"name": f"gpu-{number}"} for number in range(size)] for size in (64, 65, 128, 129)],
        [{"name": "gpu-0"}, {"name": "gpu-0"}],
        [{"name": f"gpu-{number}", **({} if number else {"taints": [{"key": "a", "effect": "None"}]})} for number in range(65)],
    ),
    "sharedCounters": st.lists(st.fixed_dictionaries({}, optional={"name": NAMES, "counters": COUNTERS}), max_size=2)
    | one_of([{"name": f"c{number}", "counters": {"m": {"value": "1"}}} for number in range(9)]),
}  # fmt: skip
SLICE_SPEC = st.tuples(some(_SLICE, 2), st.lists(DEVICE, min_size=1, max_size=2), st.booleans()).map(
    lambda drawn: {
        "driver": "gpu.nvidia.com",
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        **({} if {"allNodes", "nodeSelector", "perDeviceNodeSelection"} & drawn[0].keys() and drawn[2] else {"nodeName": "node-0"}),
        **({} if "sharedCounters" in drawn[0] and drawn[2] else {"devices": drawn[1]}),
        **drawn[0],
    }
)

CLASS_SPEC = some(
    {
        "selectors": SELECTORS | MANY_SELECTORS,
        "config": st.lists(CONFIGURATION, max_size=2),
        "extendedResourceName": one_of(
            "nvidia.com/gpu",
            "gpu",
            "",
            "kubernetes.io/gpu",
            "requests.nvidia.com/gpu",
            "nvidia.com/a/b",
            "NVIDIA.com/gpu",
            "example.com/" + "x" * 64,
        ),
    }
)

RULE_SPEC = st.fixed_dictionaries(
    {},
    optional={"deviceSelector": some({"driver": DRIVERS, "pool": POOLS, "device": NAMES}), "taint": TAINT},
)

GROUP = "resource.k8s.io"


def _object(kind: str, spec: Json, name: Any = "probe") -> Json:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


BODIES: dict[str, tuple[str, st.SearchStrategy[Json]]] = {
    "deviceClass": (
        "deviceclasses",
        st.tuples(CLASS_SPEC, one_of("gpu.example.com") | NAMES).map(lambda drawn: _object("DeviceClass", *drawn)),
    ),
    "deviceTaint": ("devicetaintrules", RULE_SPEC.map(lambda spec: _object("DeviceTaintRule", spec))),
    "resourceClaim": ("resourceclaims", CLAIM_SPEC.map(lambda spec: _object("ResourceClaim", spec))),
    "claimTemplate": ("resourceclaimtemplates", CLAIM_SPEC.map(lambda spec: _object("ResourceClaimTemplate", {"spec": spec}))),
    "resourceSlice": ("resourceslices", SLICE_SPEC.map(lambda spec: _object("ResourceSlice", spec))),
}
"""Kind of request → plural of the kind of object, and bodies. Cluster-scoped but for claims and templates."""

NAMESPACED = frozenset({"resourceClaim", "claimTemplate"})
