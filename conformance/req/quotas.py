"""REQ-06: whether tenants' device pods are counted by a quota of their namespace."""

from collections.abc import Iterable, Iterator

from fixtures.kubernetes.models import Pod, ResourceQuota
from fixtures.model.cluster import Scope
from fixtures.model.demand.amounts import held_by, whole
from fixtures.model.demand.budgets import counts, counts_claims, hard
from fixtures.model.dra.slices import BY_CLASS
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

COUNT = "count/resourceclaims.resource.k8s.io"
"""What counts the claims of a namespace, each of which may hold many devices."""

_OF_CLASS = ".deviceclass.resource.k8s.io/devices"

Keys = tuple[str, ...]
"""Keys of a quota of which any one will do."""

_SOURCE = "resources and claims of pods, resourcequota.spec"


def check_tenants_have_quotas(scope: Scope) -> Iterator[Finding]:
    """One finding per tenant namespace with device pods: for each pod, a quota that counts it names each device that it asks for."""
    quotas: dict[str, list[ResourceQuota]] = {}
    for quota in scope.snapshot.quotas:
        quotas.setdefault(quota.namespace, []).append(quota)
    asking: dict[str, list[tuple[Pod, list[Keys]]]] = {}
    unknown: dict[str, str] = {}
    for pod in scope.snapshot.pods:
        if pod.finished or not scope.is_tenant(pod.namespace):
            continue
        demand = scope.device_demand_of(pod)
        if demand.devices:
            asking.setdefault(pod.namespace, []).append((pod, keys_of(scope, pod)))
        elif demand.unknown:
            unknown.setdefault(pod.namespace, f"whether pod {pod.name} asks for a device is not known: {demand.unknown}")
    for namespace in sorted(asking.keys() | unknown.keys()):
        yield _counted(namespace, asking.get(namespace, []), quotas.get(namespace, []), unknown.get(namespace, ""))


def keys_of(scope: Scope, pod: Pod) -> list[Keys]:
    """What a quota must name to count the devices of a pod, for each sort of device (docs/facts/admission.md#quota)."""
    amounts = held_by(pod.spec, lambda name: scope.is_device(name) or scope.claims.by_resource(name).devices)
    asked = {name for name, amount in amounts.items() if amount}
    statuses = pod.claim_statuses
    classes = scope.claims.classes_of(pod.claims, pod.namespace, statuses)
    asked |= {BY_CLASS + name for name, demand in classes.items() if demand.devices}
    return [keys_for(scope, name) for name in sorted(asked)]


def quota_key(resource: str) -> str:
    """What a quota calls devices of a resource: ``requests.<name>``, or the class's own key where they are claimed.

    Facts: docs/facts/admission.md#quota.
    """
    if resource.startswith(BY_CLASS):
        return f"{resource.removeprefix(BY_CLASS)}.deviceclass.resource.k8s.io/devices"
    return f"requests.{resource}"


def keys_for(scope: Scope, resource: str) -> Keys:
    """Keys of which each counts devices of a resource, that of the way in which the pod asks first.

    Facts: docs/facts/dra.md#extended-resources-by-claim.
    """
    name = scope.claims.class_behind(resource)
    known = scope.claims.classes.get(name)
    if known is None:
        return (quota_key(resource),)
    if resource.startswith(BY_CLASS):
        extended = known.extended_resource if scope.claims.serving.get(known.extended_resource) == name else ""
        return (quota_key(resource), *([f"requests.{resource}", f"requests.{extended}"] if extended else []))
    by_plugin = any(whole(node.allocatable.get(resource)) for node in scope.snapshot.nodes)
    return (quota_key(resource), *([] if by_plugin else [quota_key(f"{BY_CLASS}{name}")]))


def _counted(namespace: str, asking: list[tuple[Pod, list[Keys]]], quotas: list[ResourceQuota], unknown: str) -> Finding:
    place = Subject("Namespace", namespace)
    wanted = sorted({" or ".join(keys) for _, every in asking for keys in every})
    expected = f"a ResourceQuota with {listed(wanted)}"
    named = sorted({key for quota in quotas for key in hard(quota)})
    observed = f"quotas with {listed(named, 6)}" if named else "quotas without keys" if quotas else "no ResourceQuota"
    unsure = ""
    about = About(place, _SOURCE, expected, observed)
    for pod, every in asking:
        for keys in every:
            by_claim = keys[0].endswith(_OF_CLASS)
            answers = [
                counts_claims(quota) if by_claim or key.endswith(_OF_CLASS) else counts(quota, pod)
                for quota in quotas
                for key in keys
                if key in hard(quota)
            ]
            if True in answers:
                continue
            if None in answers:
                unsure = unsure or f"whether the quota on {keys[0]} counts pod {pod.name} depends on scopes that are not understood"
                continue
            message = _why_not(keys[0], pod, named, scoped=bool(answers))
            return about.bad(message, cause="QuotaMissing")
    if why := unsure or unknown:
        return about.undecided(why)
    return about.ok()


def _why_not(key: str, pod: Pod, named: Iterable[str], *, scoped: bool) -> str:
    consequence = f"pods such as {pod.name} can take every device of the cluster"
    if scoped and key.endswith(_OF_CLASS):
        return f"the quotas on {key} have scopes, and a quota with scopes counts no claims: {consequence}"
    if scoped:
        return f"the quotas on {key} have scopes that leave out pod {pod.name}: nothing counts its devices"
    if COUNT in named and key.endswith(_OF_CLASS):
        return f"the quota on {COUNT} counts claims, and one claim may take up to 32 devices; the key is {key}: {consequence}"
    resource = key.removeprefix("requests.")
    near = [name for name in (resource, f"limits.{resource}") if name in named and name != key]
    if near:
        return f"the quota names {near[0]}, which counts nothing; the key is {key}: {consequence}"
    return f"no quota of the namespace names {key}: {consequence}"
