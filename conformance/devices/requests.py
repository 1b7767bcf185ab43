"""Device amounts of containers and pods, as the API validates them and the scheduler counts them.

Facts: docs/facts/admission.md#extended-resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial

from conformance.devices.resource_words import beside_devices
from conformance.scope.scope import Scope, held_by, matches
from fixtures.kubernetes import quantity
from fixtures.kubernetes.models import PodSpec
from fixtures.model.demand.pod_amounts import Amount
from fixtures.model.dra.drivers import names_accelerator

FOREIGN_ACCELERATORS = (
    "huawei.com/*",
    "cambricon.com/*",
    "hygon.com/*",
    "metax-tech.com/*",
    "mthreads.com/*",
    "tencent.com/vcuda*",
    "aliyun.com/gpu*",
    "volcano.sh/vgpu*",
    "rebellions.ai/*",
    "furiosa.ai/*",
    "qualcomm.com/qaic*",
    "tenstorrent.com/*",
    "intel.com/gpu*",
    "xilinx.com/fpga*",
    "amd.com/xilinx*",
    "k8s.amazonaws.com/vgpu",
)
"""Names of accelerators that no default policy approves (docs/facts/vendors-and-clouds.md#accelerators-nobody-approves)."""


def is_extended(name: str) -> bool:
    """Whether a resource name is an extended resource: it has a domain, outside kubernetes.io.

    Facts: docs/facts/admission.md#extended-resources.
    """
    domain, slash, rest = name.partition("/")
    return bool(slash and domain and rest) and domain != "kubernetes.io" and not domain.endswith(".kubernetes.io")


def looks_like_device(scope: Scope, name: str) -> bool:
    """Whether a name is a device's by the policy, by its vendor's domain, or by a known vendor: also where it is misspelt."""
    return scope.cached(_looks)(name)


def _looks(scope: Scope) -> Callable[[str], bool]:
    """The same for one scope, which has few names and many pods that ask for them."""
    return cache(partial(_looks_like_device, scope))


def _looks_like_device(scope: Scope, name: str) -> bool:
    if scope.is_device(name) or matches(name, FOREIGN_ACCELERATORS):
        return True
    if not is_extended(name) or scope.is_rdma(name) or matches(name, scope.policy.accelerators.no_devices) or beside_devices(name):
        return False
    domains = {glob.partition("/")[0] for glob in scope.policy.accelerators.resources}
    return name.partition("/")[0] in domains


def is_unlisted_accelerator(scope: Scope, name: str) -> bool:
    """Whether a resource is an accelerator's, by its vendor or the words of its name, and no pattern of the policy has it."""
    policy = scope.policy
    if scope.is_device(name) or scope.is_rdma(name) or not is_extended(name):
        return False
    if matches(name, (*policy.accelerators.no_devices, *policy.accelerators.vm_resources, *policy.requests.scheduler_amounts)):
        return False
    return matches(name, FOREIGN_ACCELERATORS) or names_accelerator(name)


def problem(resource: str, request: Amount | None, limit: Amount | None) -> str:
    """What the API server would refuse about a device's request and limit, or empty when it would accept them."""
    if limit is None:
        return f"{resource}: request {request} without a limit"
    for field, value in (("limit", limit), ("request", request)):
        if value is None:
            continue
        try:
            amount = quantity.parse(value)
        except quantity.QuantityError as error:
            return f"{resource}: {field} {value!r} is no quantity ({error})"
        if amount.denominator != 1:
            return f"{resource}: {field} {value} is no whole number"
        if amount < 0:
            return f"{resource}: {field} {value} is negative"
    if request is not None and quantity.compare(request, limit):
        return f"{resource}: request {request} is not the limit {limit}"
    return ""


def held(spec: PodSpec, wanted: Callable[[str], bool] = is_extended) -> dict[str, int]:
    """What the scheduler counts for a pod, extended resources where nothing else is wanted."""
    return held_by(spec, wanted)


def mapped_to_dra(scope: Scope) -> set[str]:
    """Extended resource names that a DeviceClass maps to DRA: pods hold them without any node's allocatable.

    Facts: docs/facts/dra.md#extended-resources-by-claim.
    """
    listing = scope.snapshot.listing("resource.k8s.io/deviceclasses")
    if listing.trouble:
        return set()
    specs: Iterable[object] = (item.get("spec") for item in listing.objects)
    return {str(spec["extendedResourceName"]) for spec in specs if isinstance(spec, dict) and spec.get("extendedResourceName")}
