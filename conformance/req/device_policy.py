"""REQ-09: the cluster's own admission policy refuses device pods that the suite's policy calls not allowed."""

from collections.abc import Iterator

from conformance.probes.admission import Refusal, ask_refusals, device_pod
from conformance.req.amount_probes import counted_resource
from fixtures.kubernetes.models import Json
from fixtures.model.cluster import Scope
from fixtures.model.devices.mig_nodes import MIG_RESOURCE
from fixtures.model.dra.slices import BY_CLASS
from fixtures.model.placement.affinity import fence_tolerations
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Finding
from fixtures.verdict.subjects import NotApplicable

_NO_PROFILE = f"{MIG_RESOURCE}9g.999gb"
"""A resource that no device has: only a policy may refuse a pod that asks for it."""


def probe_policy(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """One finding per rule that the policy declares. Raises :class:`NotApplicable` where it declares none."""
    control, refusals = cases(scope)
    yield from ask_refusals(workspace, control, refusals)


def cases(scope: Scope) -> tuple[Json, list[Refusal]]:
    """An allowed pod, and for each rule the pod that breaks it alone. Raises :class:`NotApplicable`."""
    rules, resource = scope.policy.admission, counted_resource(scope)
    if resource.startswith(BY_CLASS):
        raise NotApplicable("NoDeviceResource", "devices are claimed, and no node advertises a device resource")
    node = next((node for node in scope.accelerator_nodes if scope.device_capacity(node).get(resource)), None)
    tolerations = fence_tolerations(scope, node) if node is not None else []

    def pod(name: str, asked: str = resource, count: int = 1, *, tolerates: bool = True, classed: bool = True) -> Json:
        runtime_class = rules.runtime_class if classed else ""
        return device_pod(scope, f"policy-{name}", {asked: count}, tolerations if tolerates else (), runtime_class=runtime_class)

    found = []
    if rules.names:
        unapproved = f"{resource.partition('/')[0]}/unapproved-device"
        found.append(Refusal(what=f"one {unapproved}", body=pod("name", unapproved), key="admission.names"))
    if rules.max_devices:
        many = rules.max_devices + 1
        found.append(Refusal(what=f"{many} {resource}", body=pod("count", count=many), key="admission.maxDevices"))
    if rules.profiles:
        found.append(Refusal(what=f"one {_NO_PROFILE}", body=pod("profile", _NO_PROFILE), key="admission.profiles"))
    if rules.tolerations and tolerations:
        body = pod("toleration", tolerates=False)
        found.append(Refusal(what=f"one {resource} without toleration", body=body, key="admission.tolerations"))
    if rules.runtime_class:
        body = pod("runtime-class", classed=False)
        found.append(Refusal(what=f"one {resource} without runtimeClassName", body=body, key="admission.runtimeClass"))
    if not found:
        raise NotApplicable("NotDeclared", "the policy declares no rule of admission for device pods (section admission)")
    return pod("control"), found
