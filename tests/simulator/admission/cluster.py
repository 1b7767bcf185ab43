"""A handful of objects that admission can read, and requests against them."""

from collections.abc import Iterable

from fixtures.simulator.admission.interface import AdmissionRequest, ApiError, admit_all
from fixtures.simulator.admission.plugins import HEALTHY, chain
from fixtures.simulator.api.objects import Json
from fixtures.simulator.api.resources import Resource
from fixtures.simulator.config.behaviour import Behaviour
from fixtures.simulator.kinds.decoding import conform

GPU = "nvidia.com/gpu"
PODS = Resource("", "v1", "pods", "Pod")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")


class Objects:
    """A Reader over a dictionary: resource key → objects."""

    def __init__(self) -> None:
        self._kinds: dict[str, list[Json]] = {"namespaces": [namespace("team")]}

    def put(self, key: str, *objects: Json) -> "Objects":
        self._kinds[key] = list(objects)
        return self

    def get(self, resource_key: str, namespace: str, name: str) -> Json | None:
        return next((o for o in self.list(resource_key, namespace or None) if o["metadata"]["name"] == name), None)

    def list(self, resource_key: str, namespace: str | None = None) -> Iterable[Json]:
        found = self._kinds.get(resource_key, [])
        return [o for o in found if namespace is None or o["metadata"].get("namespace", "") in (namespace, "")]


def namespace(name: str, **labels: str) -> Json:
    psa = {f"pod-security.kubernetes.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return {"metadata": {"name": name, "labels": psa}}


def container(name: str = "main", **fields: object) -> Json:
    return {"name": name, "image": "registry.example/cuda:12.4", **fields}


def gpu(limit: object = None, request: object = None, name: str = GPU) -> Json:
    resources: Json = {}
    if limit is not None:
        resources["limits"] = {name: limit}
    if request is not None:
        resources["requests"] = {name: request}
    return resources


def pod(*containers: Json, name: str = "train", **spec: object) -> Json:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": {"containers": list(containers) or [container()], **spec}}


def gpu_pod(limit: object = "1", request: object = None, resource: str = GPU) -> Json:
    return pod(container(resources=gpu(limit, request, resource)))


def restricted_pod() -> Json:
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod(
        container(resources=gpu("1"), securityContext=security),
        securityContext={"runAsNonRoot": True, "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}},
    )


def template(spec: Json, **labels: str) -> Json:
    return {"metadata": {"labels": labels or {"app": "train"}}, "spec": spec}


def deployment(spec: Json) -> Json:
    return {
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"selector": {"matchLabels": {"app": "train"}}, "template": template(spec)},
    }


def request(
    obj: Json,
    resource: Resource = PODS,
    verb: str = "create",
    old: Json | None = None,
    subresource: str = "",
    user: str = "",
    dry_run: bool = False,
) -> AdmissionRequest:
    meta = obj.get("metadata") or {}
    space = "team" if resource.namespaced else ""
    name = meta.get("name", "") if isinstance(meta, dict) else ""
    return AdmissionRequest(verb, resource, space, name if isinstance(name, str) else "", subresource, obj, old, user, dry_run)


def admit(asked: AdmissionRequest | Json, objects: Objects | None = None, behaviour: Behaviour = HEALTHY) -> tuple[Json, list[str]]:
    if isinstance(asked, dict):
        asked = request(asked)
    if asked.verb != "delete":
        conform(asked.resource, asked.obj)  # as the server does before admission
    return asked.obj, admit_all(chain(behaviour), asked, objects or Objects())


def refusal(asked: AdmissionRequest | Json, objects: Objects | None = None, behaviour: Behaviour = HEALTHY) -> ApiError:
    try:
        admitted = admit(asked, objects, behaviour)
    except ApiError as error:
        return error
    raise AssertionError(f"admitted: {admitted}")
