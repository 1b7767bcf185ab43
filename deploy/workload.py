"""The Job and CronJob of the suite, and the objects beside them, as one tree for kustomize and the chart (:mod:`deploy.templates`)."""

from typing import Any

from conformance.catalogue import Catalogue
from conformance.delivery.files import CA_FILE
from conformance.delivery.node_labels import MAX_HOURS
from conformance.delivery.webhook import Form
from conformance.requirement import Requirement
from conformance.version import VERSION
from deploy import account_policy, rights
from deploy.rights import ACCOUNT, CONFIG_MAP, FULL, READ_ONLY, RELEASE, RESULTS
from deploy.templates import Each, Format, Json, Value, When
from fixtures.verdict.record import Access

NAME = "gpu-conformance"
POLICY_FOLDER = "/etc/gpu-conformance"
RESULTS_FOLDER = "/results"
URL_FOLDER = "/var/run/gpu-conformance"
WEBHOOK_FOLDER = "/var/run/gpu-conformance-webhook"
CA_FOLDER = "/etc/gpu-conformance-ca"
WEBHOOK = ".Values.results.webhookSecret"
USER = 65532
READS, WRITES = "read-only", "full"
CRON, ONCE, NONE = "cronjob", "job", "none"
LABELS = {"app.kubernetes.io/name": NAME}
"""Not the labels of what a run creates: `cleanup` looks for those."""

DEFAULTS: Json = {
    "image": f"{NAME}:{VERSION}",
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": [],
    "access": READS,
    "mode": CRON,
    "schedule": "17 3 * * *",
    "deadlineSeconds": 7200,
    "options": [],
    "policy": {},
    "results": {
        "configMap": RESULTS,
        "claim": "",
        "keep": 30,
        "putUrlSecret": "",
        "webhookSecret": "",
        "webhookFormat": Form.JSON.value,
        "caConfigMap": "",
    },
    "publishHours": 0,
    "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}},
    "nodeSelector": {},
    "tolerations": [],
    "egress": [
        {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
        {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]},
    ],
}
"""The values of the chart, and what kustomize builds."""

DESCRIPTIONS = {
    "image": "the suite's image; better with a digest",
    "imagePullPolicy": "as Kubernetes has it",
    "imagePullSecrets": "as a pod has them",
    "access": "read-only: reads and changes nothing; full: also starts probe pods in namespaces of its own",
    "mode": "cronjob or job; none: nothing runs, for verdicts that are published from elsewhere",
    "schedule": "when a cronjob runs",
    "deadlineSeconds": "a run that takes longer is ended, and removes what it made",
    "options": "further options of a run, such as --strict",
    "policy": "what the owner expects of the cluster, as in docs/policy.md",
    "results": "configMap: name of a ConfigMap; claim: name of a PersistentVolumeClaim, and keep: how many runs stay there; "
    "putUrlSecret: name of a Secret whose key url is a presigned PUT URL; "
    "webhookSecret: name of a Secret whose key url is a webhook's URL, and webhookFormat: json or slack, needs claim; "
    "caConfigMap: name of a ConfigMap whose key ca.crt has the certificates of both hosts; empty: not used",
    "publishHours": f"label nodes with their verdict for so many hours, at most {MAX_HOURS}; 0: never",
    "resources": "as a container has them",
    "nodeSelector": "as a pod has it",
    "tolerations": "as a pod has them",
    "egress": "what the suite's pod may reach, as a NetworkPolicy has it: name servers, the API server, the object store, the webhook",
}

_SAFE = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
_POD_SAFE = {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER, "seccompProfile": {"type": "RuntimeDefault"}}


def values(**chosen: Any) -> Json:
    """What a template sees, with some of the defaults changed, in the namespace that kustomize names."""
    return {"Values": {**DEFAULTS, **chosen}, "Release": {"Namespace": rights.NAMESPACE}}


def namespace() -> Json:
    """The namespace, for pods that meet the restricted Pod Security Standard. A chart leaves it to ``--create-namespace``."""
    return rights.account()[0]


def beside() -> list[Any]:
    """What the suite's pod needs beside its rights."""
    isolated = {"podSelector": {"matchLabels": {"app.kubernetes.io/name": NAME}}, "policyTypes": ["Ingress", "Egress"], "ingress": []}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(ACCOUNT)},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _named(f"{NAME}-policy"),
            "data": {"policy.yaml": Value(".Values.policy", True)},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": _named(NAME),
            "spec": {**isolated, "egress": Value(".Values.egress")},
        },
    ]


def grants(catalogue: Catalogue) -> list[Any]:
    """Rights: one of two sizes, what handing results on needs, each only if it is used, and the policy that narrows them all."""
    found: list[Any] = []
    for access, name, requirements in ((READS, READ_ONLY, read_only(catalogue)), (WRITES, FULL, catalogue.by_id.values())):
        for document in (rights.cluster_role(name, rights.rights(requirements)), _bound(rights.binding(name))):
            found.append(When(".Values.access", document, access))
    config_map, results = CONFIG_MAP, f"{NAME}-results"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": _named(results),
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},  # RBAC cannot bind a creation to a name
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [Value(config_map)], "verbs": ["get", "patch"]},
        ],
    }
    bound = _bound(rights.binding(results))
    bound |= {"kind": "RoleBinding", "metadata": _named(results), "roleRef": {**bound["roleRef"], "kind": "Role"}}
    publish = f"{NAME}-publish"
    labels = rights.cluster_role(
        publish, [("", "nodes", "list"), ("", "nodes", "patch"), ("", "nodes/status", "patch"), ("", "namespaces", "list")]
    )
    found += [When(config_map, role), When(config_map, bound)]
    found += [When(".Values.publishHours", labels), When(".Values.publishHours", _bound(rights.binding(publish)))]
    return [*found, *account_policy.tree()]


def read_only(catalogue: Catalogue) -> list[Requirement]:
    """The requirements that only read."""
    return [requirement for requirement in catalogue.by_id.values() if requirement.access == Access.READ]


def runs() -> list[Any]:
    """The Job or the CronJob, and the CronJob that takes expired node labels away."""
    job = {
        "backoffLimit": 0,  # a second run would hide what the first one saw
        "activeDeadlineSeconds": Value(".Values.deadlineSeconds"),
        "template": {"metadata": {"labels": LABELS}, "spec": _run()},
    }
    cron = {
        "schedule": Value(".Values.schedule"),
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 3,
        "jobTemplate": {"spec": job},
    }
    sweep = {
        "schedule": "41 * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {
            "spec": {
                "backoffLimit": 1,
                "activeDeadlineSeconds": 600,
                "template": {"metadata": {"labels": LABELS}, "spec": _pod(["publish", "--sweep", "--in-cluster"])},
            }
        },
    }
    return [
        When(".Values.mode", {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _named(NAME), "spec": cron}, CRON),
        When(".Values.mode", {"apiVersion": "batch/v1", "kind": "Job", "metadata": _named(NAME), "spec": job}, ONCE),
        When(".Values.publishHours", {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _named(f"{NAME}-labels"), "spec": sweep}),
    ]


def container(arguments: list[Any]) -> Json:
    """The suite's container. It writes to /tmp alone, as a user without any privilege."""
    return {
        "name": NAME,
        "image": Value(".Values.image"),
        "imagePullPolicy": Value(".Values.imagePullPolicy"),
        "args": arguments,
        "env": [{"name": "HOME", "value": "/tmp"}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": _SAFE,
        "resources": Value(".Values.resources"),
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def sonobuoy() -> Json:
    """The plugin for Sonobuoy: it runs with the rights of Sonobuoy's own account and writes where Sonobuoy looks."""
    held = container(["job", "--in-cluster", "--to", "sonobuoy", "--", "--read-only"])
    held["volumeMounts"] = [*held["volumeMounts"], {"name": "results", "mountPath": "/tmp/sonobuoy/results"}]
    held["name"] = "plugin"
    return {
        "sonobuoy-config": {"driver": "Job", "plugin-name": NAME, "result-format": "junit", "result-files": ["junit.xml"]},
        "podSpec": {
            "serviceAccountName": "sonobuoy-serviceaccount",
            "restartPolicy": "Never",
            "containers": [],
            "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
        },
        "spec": held,
    }


def _run() -> Json:
    """The pod that judges, with what its options name."""
    claim, url, hours, authority = (
        ".Values.results.claim",
        ".Values.results.putUrlSecret",
        ".Values.publishHours",
        ".Values.results.caConfigMap",
    )
    arguments = [
        *("job", "--in-cluster"),
        When(CONFIG_MAP, Format("--to=configmap=%s/%s", (RELEASE, CONFIG_MAP))),
        When(claim, f"--to=folder={RESULTS_FOLDER}"),
        When(claim, Format("--keep=%v", (".Values.results.keep",))),
        When(url, f"--to=put-url-file={URL_FOLDER}/url"),
        When(WEBHOOK, Format(f"--webhook=%s={WEBHOOK_FOLDER}/url", (".Values.results.webhookFormat",))),
        When(hours, Format("--publish=%v", (hours,))),
        "--",
        When(".Values.access", "--read-only", READS),
        f"--policy={POLICY_FOLDER}/policy.yaml",
        Each(".Values.options"),
    ]
    pod = _pod(arguments)
    (held,) = pod["containers"]
    held["env"].append(When(authority, {"name": CA_FILE, "value": f"{CA_FOLDER}/ca.crt"}))
    held["volumeMounts"] += [
        {"name": "policy", "mountPath": POLICY_FOLDER, "readOnly": True},
        When(claim, {"name": "results", "mountPath": RESULTS_FOLDER}),
        When(url, {"name": "url", "mountPath": URL_FOLDER, "readOnly": True}),
        When(WEBHOOK, {"name": "webhook", "mountPath": WEBHOOK_FOLDER, "readOnly": True}),
        When(authority, {"name": "ca", "mountPath": CA_FOLDER, "readOnly": True}),
    ]
    pod["volumes"] += [
        {"name": "policy", "configMap": {"name": f"{NAME}-policy"}},
        When(claim, {"name": "results", "persistentVolumeClaim": {"claimName": Value(claim)}}),
        When(url, {"name": "url", "secret": {"secretName": Value(url)}}),
        When(WEBHOOK, {"name": "webhook", "secret": {"secretName": Value(WEBHOOK)}}),
        When(authority, {"name": "ca", "configMap": {"name": Value(authority)}}),
    ]
    return pod


def _pod(arguments: list[Any]) -> Json:
    """A pod of the suite that nothing is mounted into."""
    return {
        "serviceAccountName": ACCOUNT,
        "restartPolicy": "Never",
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 180,  # so long a run may take to remove what it made
        "securityContext": _POD_SAFE,
        "imagePullSecrets": Value(".Values.imagePullSecrets"),
        "nodeSelector": Value(".Values.nodeSelector"),
        "tolerations": Value(".Values.tolerations"),
        "containers": [container(arguments)],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}}],
    }


def _named(name: str) -> Json:
    return {"name": name, "namespace": Value(RELEASE), "labels": LABELS}


def _bound(document: Json) -> Json:
    return {**document, "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": Value(RELEASE)}]}
