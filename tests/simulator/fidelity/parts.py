"""The fields that requirements rely on, with values at and beyond their bounds: each part is (spec, metadata) of a pod."""

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Part = st.SearchStrategy[tuple[Json, Json]]

QUANTITIES = st.sampled_from(
    [
        "0", "1", "2", "8", "-1", "+1", "1.5", "0.5", "1.0", "500m", "1000m", "1500m", "1e3", "1E3", "1e-3", "2e0", "1k", "1K", "1Ki",
        "1.5Ki", "0.5Ki",
        "8Gi", "1M", "1G", "1T", "1P", "1E", "1Ei", "1n", "1u", "1m", "0.1m", "0.0001", "100000n", "9223372036854775807",
        "9223372036854775808", "1e30", "-500m", "", " 1", "1 ", "abc", "1gb", "0x10", "1_000", ".5", "5.", "1.", "1e", "1ee3", "m",
        "-", "+", "k", "Ki", ".", "e3", "-m", "e", "i", "\u0661",
        0, 1, 8, -1, 1.5, 1e3, True, None,
    ]
)  # fmt: skip
RESOURCES = st.sampled_from(
    [
        "cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared",
        "amd.com/gpu",
        "rdma/hca_shared_devices_a", "hugepages-2Mi", "hugepages-1Gi", "hugepages-", "hugepages-3Ki", "storage", "pods", "gpu",
        "nvidia.com/",
        "/gpu", "nvidia.com/a/b", "NVIDIA.com/gpu", "nvidia.com/GPU", "requests.nvidia.com/gpu", "kubernetes.io/gpu",
        "attachable-volumes-x",
        "example.com/" + "x" * 64, "nvidia_com/gpu", "",
    ]
)  # fmt: skip
INTEGERS = st.sampled_from([0, 1, -1, 1000, 65535, 65536, 2**31 - 1, 2**31, 2**63 - 1])
NAMES = st.sampled_from(
    ["main", "a", "A", "a_b", "a.b", "-a", "a-", "", "x" * 63, "x" * 64, "x" * 253, "x" * 254, "ä", "1", "a b", "123-abc", "a..b"]
)
KEYS = st.sampled_from(
    [
        "nvidia.com/gpu", "nvidia.com/gpu.product", "key", "", "/", "a/b/c", "a/", "/b", "A_b.c-d", "-a", "a-", "x" * 63, "x" * 64,
        "Example.com/x", "example.com/" + "x" * 64, "node-role.kubernetes.io/control-plane", "kubernetes.io/hostname", "ä",
        ("x" * 63 + ".") * 4 + "com/a",
    ]
)  # fmt: skip
VALUES = st.sampled_from(["present", "true", "", "NVIDIA-H100-80GB-HBM3", "a b", "-a", "a-", "x" * 63, "x" * 64, "a/b", "ä", "1"])


def some(fields: dict[str, st.SearchStrategy[Any]], most: int = 3) -> st.SearchStrategy[Json]:
    """A few of the fields: most objects differ from a good one in one thing or two."""
    return st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: fields[name] for name in chosen})
    )


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def container(fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return fields.map(lambda more: {"name": "main", "image": "registry.example/main:1", **more})


AMOUNTS = st.dictionaries(RESOURCES, QUANTITIES, max_size=2)
_ORDINARY = st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "nvidia.com/mig-1g.10gb"])
_PAIRS = st.tuples(_ORDINARY, QUANTITIES, QUANTITIES).map(lambda drawn: {"requests": {drawn[0]: drawn[1]}, "limits": {drawn[0]: drawn[2]}})
REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({}, optional={"requests": AMOUNTS, "limits": AMOUNTS}),
    _PAIRS,
    st.tuples(one_of("requests", "limits"), _ORDINARY, QUANTITIES).map(lambda drawn: {drawn[0]: {drawn[1]: drawn[2]}}),
    st.tuples(_ORDINARY, QUANTITIES).map(lambda drawn: {"requests": {drawn[0]: drawn[1]}, "limits": {drawn[0]: drawn[1]}}),
)
QUANTITY_SPEC = st.one_of(
    container(REQUIREMENTS.map(lambda resources: {"resources": resources})).map(lambda one: {"containers": [one]}),
    REQUIREMENTS.map(lambda found: {"initContainers": [{"name": "init", "image": "registry.example/init:1", "resources": found}]}),
    REQUIREMENTS.map(lambda found: {"resources": found}),
    REQUIREMENTS.map(lambda found: {"overhead": found.get("requests", {})}),
)

_PROFILE = one_of(
    {"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost"}, {"type": "Localhost", "localhostProfile": "gpu.json"},
    {"type": "Localhost", "localhostProfile": "../x"}, {"type": "Localhost", "localhostProfile": "/x"}, {"type": "Localhost",
    "localhostProfile": ""},
    {"type": "RuntimeDefault", "localhostProfile": "x"}, {"type": "Other"}, {"type": ""}, {}, None,
)  # fmt: skip
_SELINUX = st.fixed_dictionaries(
    {},
    optional={
        "type": one_of("", "container_t", "spc_t", "container_engine_t"),
        "user": one_of("", "u"),
        "role": one_of("", "r"),
        "level": one_of("s0"),
    },
)
_WINDOWS = one_of({}, {"hostProcess": True}, {"hostProcess": False}, {"runAsUserName": ""}, {"runAsUserName": "ContainerUser"}, None)
_BOTH: dict[str, st.SearchStrategy[Any]] = {
    "runAsNonRoot": one_of(True, False, None),
    "runAsUser": INTEGERS,
    "runAsGroup": INTEGERS,
    "seccompProfile": _PROFILE,
    "appArmorProfile": _PROFILE,
    "seLinuxOptions": _SELINUX,
    "windowsOptions": _WINDOWS,
}
_CAPABILITIES = st.fixed_dictionaries(
    {},
    optional={
        "add": st.lists(one_of("IPC_LOCK", "SYS_ADMIN", "NET_BIND_SERVICE", "CHOWN", "ALL", "CAP_CHOWN", "chown", "", "all"), max_size=3),
        "drop": st.lists(one_of("ALL", "all", "CAP_ALL", "SYS_ADMIN"), max_size=2),
    },
)
CONTAINER_SECURITY = some(
    {
        **_BOTH,
        "privileged": one_of(True, False, None),
        "allowPrivilegeEscalation": one_of(True, False, None),
        "capabilities": _CAPABILITIES,
        "procMount": one_of("Default", "Unmasked", "Other", ""),
        "readOnlyRootFilesystem": one_of(True, False),
    },
    4,
)
GOOD_CONTAINER = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
POD_SECURITY = some(
    {
        **_BOTH,
        "fsGroup": INTEGERS,
        "supplementalGroups": st.lists(INTEGERS, max_size=2),
        "fsGroupChangePolicy": one_of("Always", "OnRootMismatch", "Never"),
        "supplementalGroupsPolicy": one_of("Merge", "Strict", "Other"),
        "sysctls": st.lists(
            st.fixed_dictionaries(
                {
                    "name": one_of(
                        "kernel.shm_rmid_forced", "net.ipv4.tcp_syncookies", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_rmem",
                        "net.ipv4.tcp_keepalive_time", "kernel.msgmax", "net/ipv4/tcp_syncookies", "", "BAD!", "vm.max_map_count",
                        "net.core.somaxconn",
                    ),
                    "value": one_of("0", "1", ""),
                }
            ),
            max_size=2,
        ),
    },
    3,
)  # fmt: skip
_VOLUME = one_of(
    {"emptyDir": {}}, {"emptyDir": {"medium": "Memory"}}, {"hostPath": {"path": "/dev/nvidia0"}}, {"hostPath": {"path": "/dev",
    "type": "Directory"}},
    {"hostPath": {"path": ""}}, {"hostPath": {"path": "/dev", "type": "Other"}}, {"hostPath": {"path": "/a/../b"}},
    {"configMap": {"name": "c"}},
    {"secret": {"secretName": "s"}}, {"nfs": {"server": "s", "path": "/p"}}, {"persistentVolumeClaim": {"claimName": "c"}}, {},
    {"emptyDir": {}, "configMap": {"name": "c"}}, {"csi": {"driver": "d.example"}}, {"projected": {"sources": []}},
    {"downwardAPI": {"items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}}, {"iscsi": {"targetPortal": "p",
    "iqn": "iqn.2001-04.com.e:x", "lun": 0}},
    {"image": {"reference": "registry.example/x:1"}}, {"ephemeral": {}}, {"gitRepo": {"repository": "r"}}, {"configMap": {}},
    {"secret": {}},
)  # fmt: skip
_MORE: dict[str, st.SearchStrategy[Any]] = {
    "securityContext": CONTAINER_SECURITY,
    "ports": st.lists(
        st.fixed_dictionaries(
            {"containerPort": one_of(80, 443, 0, 65536, -1)}, optional={"hostPort": one_of(0, 80, 65536), "protocol": one_of("TCP",
            "UDP", "X", "")}
        ),
        max_size=2,
    ),
    "livenessProbe": one_of(
        {"httpGet": {"port": 80, "host": "10.0.0.1"}}, {"tcpSocket": {"port": 80, "host": "h"}}, {"exec": {"command": ["true"]}}, {},
        {"httpGet": {"port": 80}}, {"httpGet": {"port": 80, "host": "127.0.0.1"}}, {"grpc": {"port": 1}},
    ),
    "lifecycle": one_of({"postStart": {"httpGet": {"port": 80, "host": "h"}}}, {"preStop": {"exec": {"command": ["x"]}}},
    {"preStop": {"sleep": {"seconds": 1}}}),
}  # fmt: skip
_CONTAINER_MORE = some(_MORE, 2)
_SPEC_SECURITY: dict[str, st.SearchStrategy[Any]] = {
    "containers": st.lists(
        st.tuples(NAMES | one_of("main", "side", "third"), st.booleans(), _CONTAINER_MORE).map(
            lambda drawn: {"name": drawn[0], "image": "i", **({"securityContext": GOOD_CONTAINER} if drawn[1] else {}), **drawn[2]}
        ),
        min_size=1,
        max_size=3,
    ),
    "initContainers": st.lists(
        st.tuples(one_of("init", "init2"), _CONTAINER_MORE, st.booleans()).map(
            lambda drawn: {"name": drawn[0], "image": "i", **drawn[1], **({"restartPolicy": "Always"} if drawn[2] else {})}
        ),
        max_size=2,
    ),
    "securityContext": POD_SECURITY,
    "hostNetwork": one_of(True, False),
    "hostPID": one_of(True, False),
    "hostIPC": one_of(True, False),
    "hostUsers": one_of(True, False),
    "shareProcessNamespace": one_of(True, False),
    "os": one_of({"name": "linux"}, {"name": "windows"}, {"name": "plan9"}, {"name": ""}),
    "volumes": st.lists(st.tuples(one_of("v", "w", "V"), _VOLUME).map(lambda drawn: {"name": drawn[0], **drawn[1]}), max_size=2),
}
TOLERATION = st.fixed_dictionaries(
    {},
    optional={
        "key": KEYS,
        "operator": one_of("Exists", "Equal", "Exists", "", "In", "exists", "Lt", "Gt"),
        "value": VALUES | one_of("10", "010", "-3"),
        "effect": one_of("NoSchedule", "PreferNoSchedule", "NoExecute", "", "noschedule", "Other"),
        "tolerationSeconds": one_of(0, 1, -1, 300),
    },
)
_EXPRESSION = st.fixed_dictionaries(
    {"key": KEYS, "operator": one_of("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "", "Equals")},
    optional={"values": st.lists(VALUES | one_of("5", "abc"), max_size=2)},
)
_FIELDS = st.fixed_dictionaries(
    {"key": one_of("metadata.name", "metadata.namespace", ""), "operator": one_of("In", "NotIn", "Exists", "Gt")},
    optional={"values": st.lists(VALUES, max_size=2)},
)
_TERM = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(_EXPRESSION, max_size=2), "matchFields": st.lists(_FIELDS, max_size=1)}
)
_NODE_AFFINITY = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": one_of(None, {})
        | st.fixed_dictionaries({"nodeSelectorTerms": st.lists(_TERM, max_size=2)}),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": one_of(0, 1, 100, 101), "preference": _TERM}), max_size=1
        ),
    },
)
_LABEL_SELECTOR = st.fixed_dictionaries(
    {}, optional={"matchLabels": st.dictionaries(KEYS, VALUES, max_size=1), "matchExpressions": st.lists(_EXPRESSION, max_size=1)}
)
_POD_TERM = st.fixed_dictionaries(
    {}, optional={"topologyKey": KEYS, "labelSelector": _LABEL_SELECTOR, "namespaces": st.lists(NAMES, max_size=1)}
)
_POD_AFFINITY = st.fixed_dictionaries({}, optional={"requiredDuringSchedulingIgnoredDuringExecution": st.lists(_POD_TERM, max_size=1)})
_SPREAD = st.fixed_dictionaries(
    {},
    optional={
        "maxSkew": one_of(0, 1, -1), "topologyKey": KEYS, "whenUnsatisfiable": one_of("DoNotSchedule", "ScheduleAnyway", "", "X"),
        "minDomains": one_of(0, 1), "labelSelector": _LABEL_SELECTOR, "matchLabelKeys": st.lists(KEYS, max_size=1),
    },
)  # fmt: skip
_SELECTORS: dict[str, st.SearchStrategy[Any]] = {
    "nodeSelector": st.dictionaries(KEYS, VALUES, max_size=2),
    "affinity": some({"nodeAffinity": _NODE_AFFINITY, "podAffinity": _POD_AFFINITY, "podAntiAffinity": _POD_AFFINITY}, 1),
    "topologySpreadConstraints": st.lists(_SPREAD, max_size=2),
    "schedulingGates": st.lists(st.fixed_dictionaries({"name": KEYS}), max_size=2),
    "nodeName": NAMES,
    "schedulerName": NAMES,
}
_CLAIM = st.fixed_dictionaries({"name": NAMES}, optional={"resourceClaimName": NAMES, "resourceClaimTemplateName": NAMES})
_USES = st.lists(st.fixed_dictionaries({"name": NAMES}, optional={"request": NAMES}), max_size=2)
CLAIM_SPEC = st.tuples(st.lists(_CLAIM, max_size=2), _USES).map(
    lambda drawn: {
        "resourceClaims": drawn[0],
        "containers": [
            {"name": "main", "image": "i", "resources": {"claims": [*drawn[1], *({"name": claim["name"]} for claim in drawn[0][:1])]}}
        ],
    }
)
_LIFE: dict[str, st.SearchStrategy[Any]] = {
    "restartPolicy": one_of("Always", "OnFailure", "Never", "", "Other"),
    "terminationGracePeriodSeconds": INTEGERS,
    "activeDeadlineSeconds": INTEGERS,
    "dnsPolicy": one_of("ClusterFirst", "Default", "None", "Other", ""),
    "priorityClassName": one_of("", "system-node-critical", "none", "Bad_Name"),
    "priority": one_of(0, 5),
    "preemptionPolicy": one_of("Never", "PreemptLowerPriority", "Other"),
    "runtimeClassName": one_of("nvidia", "", "Bad_Name"),
    "enableServiceLinks": one_of(True, False),
    "hostname": NAMES,
    "subdomain": NAMES,
    "serviceAccountName": one_of("default", "none", "Bad_Name"),
    "containers": one_of([], None, [{}], [{"name": "a"}], [{"image": "i"}], [{"name": "a", "image": "i"}, {"name": "a", "image": "i"}],
    [{"name": "a", "image": " i"}])
    | st.lists(
        container(
            some(
                {
                    "name": NAMES,
                    "image": one_of("", "i", " "),
                    "imagePullPolicy": one_of("Always", "Never", "IfNotPresent", "", "Other"),
                    "terminationMessagePolicy": one_of("File", "FallbackToLogsOnError", "Other"),
                    "env": st.lists(st.fixed_dictionaries({"name": one_of("NVIDIA_VISIBLE_DEVICES", "", "a b", "1A", "A=B")},
                    optional={"value": VALUES}), max_size=2),
                    "volumeMounts": st.lists(st.fixed_dictionaries({"name": one_of("v", "none"), "mountPath": one_of("/a", "",
                    "a:b")}), max_size=2),
                    "restartPolicy": one_of("Always", "Never", "OnFailure"),
                    "command": one_of([], ["a"], [""]),
                },
                3,
            )
        ),
        min_size=1,
        max_size=1,
    ),
}  # fmt: skip
_METADATA: dict[str, st.SearchStrategy[Any]] = {
    "name": NAMES,
    "generateName": NAMES,
    "labels": st.dictionaries(KEYS, VALUES, max_size=2),
    "annotations": st.dictionaries(KEYS, VALUES, max_size=2),
    "finalizers": st.lists(one_of("example.com/hold", "hold", "foregroundDeletion", "a/b/c"), max_size=1),
    "namespace": one_of("open", "other", ""),
    "ownerReferences": st.lists(
        st.fixed_dictionaries(
            {"apiVersion": one_of("v1", "apps/v1", "", "a/b/c"), "kind": one_of("Pod", ""), "name": one_of("x", ""), "uid": one_of("u", "")}
        ),
        max_size=1,
    ),
}
_SHAPES = one_of(
    {"containers": {}}, {"containers": "x"}, {"containers": [1]}, {"containers": [None]}, {"hostNetwork": "true"}, {"hostNetwork": 1},
    {"nodeSelector": {"a": 1}},
    {"nodeSelector": ["a"]}, {"tolerations": {}}, {"tolerations": [{"tolerationSeconds": "3"}]}, {"nope": 1}, {"Containers": []},
    {"priority": "1"}, {"priority": 1.5},
    {"terminationGracePeriodSeconds": 1.0}, {"terminationGracePeriodSeconds": 30.5}, {"activeDeadlineSeconds": 9223372036854775808},
    {"restartPolicy": 3}, {"volumes": None},
    {"containers": [{"name": "main", "image": "i", "resources": {"limits": []}}]}, {"containers": [{"name": "main", "image": "i",
    "resources": {"limits": {"cpu": {}}}}]},
    {"containers": [{"name": "main", "image": "i", "resource": {}}]}, {"containers": [{"name": "main", "image": "i",
    "securityContext": {"privileged": "yes"}}]},
    {"containers": [{"name": "main", "image": "i", "securityContext": {"runAsUser": "0"}}]}, {"containers": [{"name": "main",
    "image": "i", "command": "x"}]},
    {"securityContext": None}, {"affinity": None}, {"affinity": {"nodeAffinity": {"nope": {}}}},
    {"schedulingGroup": {"podGroupName": "g"}},
    {"schedulingGroup": {}}, {"schedulingGroup": {"podGroupName": ""}}, {"schedulingGroup": {"podGroupName": "Bad_Name"}},
    {"hostUsers": None},
)  # fmt: skip

# what a valid pod may say: every request reaches Pod Security
_VALID_SECURITY: dict[str, st.SearchStrategy[Any]] = {
    "runAsNonRoot": one_of(True, False),
    "runAsUser": one_of(0, 1, 1000),
    "seccompProfile": one_of({"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "gpu.json"}),
    "appArmorProfile": one_of({"type": "RuntimeDefault"}, {"type": "Unconfined"}, {"type": "Localhost", "localhostProfile": "gpu"}),
    "seLinuxOptions": one_of(
        {"type": "container_t"}, {"type": "spc_t"}, {"user": "u", "role": "r"}, {"level": "s0"}, {"type": "container_engine_t"}
    ),
}
_VALID_CONTAINER = some(
    {
        **_VALID_SECURITY,
        "privileged": one_of(True, False),
        "allowPrivilegeEscalation": one_of(True),
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "add": st.lists(one_of("IPC_LOCK", "SYS_ADMIN", "NET_BIND_SERVICE", "CHOWN", "ALL", "NET_RAW"), max_size=3),
                "drop": one_of(["ALL"], ["NET_RAW"], []),
            },
        ),
    }
)


def _valid(names: tuple[str, ...]) -> st.SearchStrategy[list[Json]]:
    each = st.tuples(st.booleans(), _VALID_CONTAINER, one_of(0, 0, 0, 8080, 9090))
    return st.lists(each, min_size=1, max_size=len(names)).map(
        lambda drawn: [
            {
                "name": name,
                "image": "i",
                "securityContext": {**(GOOD_CONTAINER if good else {}), **more},
                **({"ports": [{"containerPort": port, "hostPort": port + number}]} if port else {}),
            }
            for number, (name, (good, more, port)) in enumerate(zip(names, drawn, strict=False))
        ]
    )


_STANDARDS: dict[str, st.SearchStrategy[Any]] = {
    "containers": _valid(("main", "side", "third")),
    "initContainers": _valid(("init", "init2")),
    "securityContext": some(
        {
            **_VALID_SECURITY,
            "sysctls": one_of([{"name": "kernel.shm_rmid_forced", "value": "0"}], [{"name": "kernel.msgmax", "value": "1"}]),
        }
    ),
    "hostPID": one_of(True),
    "hostIPC": one_of(True),
    "volumes": st.lists(
        one_of({"emptyDir": {}}, {"hostPath": {"path": "/dev"}}, {"nfs": {"server": "s", "path": "/p"}}, {"secret": {"secretName": "s"}}),
        max_size=3,
    ).map(lambda drawn: [{"name": f"v{number}", **source} for number, source in enumerate(drawn)]),
}

PARTS: dict[str, Part] = {
    "standards": st.tuples(some(_STANDARDS), st.just({})),
    "quantities": st.tuples(QUANTITY_SPEC, st.just({})),
    "security": st.tuples(some(_SPEC_SECURITY, 3), st.just({})),
    "tolerations": st.tuples(st.lists(TOLERATION, min_size=1, max_size=2).map(lambda found: {"tolerations": found}), st.just({})),
    "selectors": st.tuples(some(_SELECTORS, 2), st.just({})),
    "claims": st.tuples(CLAIM_SPEC, st.just({})),
    "life": st.tuples(some(_LIFE, 2), st.just({})),
    "metadata": st.tuples(st.just({}), some(_METADATA, 2)),
    "shapes": st.tuples(_SHAPES, st.just({})),
}
