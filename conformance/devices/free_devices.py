"""Where a probe can ask for devices: nodes, resources and what is free there at the time of the snapshot."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from conformance.devices.claimable import Claimable, claimable
from conformance.devices.device_types import GKE_CLIENTS, device_type
from conformance.devices.node_view import view_of
from conformance.devices.physical import INTEL_COUNT
from conformance.devices.routes import other_devices
from conformance.scope.scope import Scope, whole
from fixtures.kubernetes.models import Node
from fixtures.model.devices.node_labels import NodeAdvertisement
from fixtures.model.dra.inventory import InventoryDevice
from fixtures.model.dra.kinds import BY_CLASS
from fixtures.verdict.findings import NotApplicable

VENDOR = "nvidia.com/"
_VENDORS = {"amd.com": "amd", "gpu.amd.com": "amd", "gpu.intel.com": "intel"}
"""Vendors by the domain of the resources that a node offers, or by its DRA driver."""

NVIDIA_DRIVER = "gpu.nvidia.com"
PASSTHROUGH = frozenset({"nvidia.com/pgpu"})
"""Devices handed to virtual machines as they are: no driver in the pod lists them."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Free units of one device resource on one node. ``shared``: several units may stand for one device.

    Devices that DRA offers have a DeviceClass, a driver, the product that it publishes, and names. ``resource`` says how a probe asks for
    them: the extended resource that the class names, else the class by its name as a resource
    (:data:`fixtures.probes.claims.BY_CLASS`), which a probe pod asks for with a claim.
    """

    node: Node
    view: NodeAdvertisement
    resource: str
    free: int
    capacity: int
    shared: bool
    device_class: str = ""
    driver: str = ""
    product: str = ""
    devices: tuple[InventoryDevice, ...] = ()

    @property
    def way(self) -> str:
        """The way in which a probe asks for the devices, in words."""
        if not self.device_class:
            return f"extended resource {self.resource} of the node"
        if self.resource.startswith(BY_CLASS):
            return f"ResourceClaim of DeviceClass {self.device_class}"
        return f"extended resource {self.resource} by DRA (DeviceClass {self.device_class})"

    @property
    def device_type(self) -> tuple[str, ...]:
        """Equal for places of which one can speak for the other (:func:`conformance.devices.device_types.device_type`)."""
        kind = device_type(self.node, self.view, self.device_class or self.resource)
        return (*kind, self.product or str(self.capacity)) if self.driver else kind

    @property
    def vendor(self) -> str:
        """Whose devices they are, as documents of the node probe name vendors."""
        return _VENDORS.get(self.driver or self.resource.partition("/")[0], "nvidia")

    @property
    def by_claim(self) -> Place:
        """The same devices, asked for by a claim of their DeviceClass also where the class names an extended resource."""
        return msgspec.structs.replace(self, resource=f"{BY_CLASS}{self.device_class}")

    def __str__(self) -> str:
        return f"{self.node.name} ({self.free} of {self.capacity} {self.resource} free)"


def is_shared(node: Node, view: NodeAdvertisement, resource: str) -> bool:
    """Whether units of the resource are replicas of devices, or may be: renamed, or labelled with more than one replica.

    Intel's plugin multiplies units without a word. They are devices where a label counts as many of these as there are units.
    Facts: docs/facts/labels.md#discovery-labels, docs/facts/vendors-and-clouds.md#labels-that-count-devices.
    """
    if resource.endswith(".shared"):
        return True
    if resource.startswith("gpu.intel.com/"):
        return whole(node.metadata.label.get(INTEL_COUNT)) < whole(node.status.allocatable.get(resource))
    if whole(node.metadata.label.get(GKE_CLIENTS)) > 1:
        return True
    for known in (view.gpu, *view.mig):
        if known.resource == resource:
            return known.factor > 1 or known.product.shared or known.sharing_strategy in ("time-slicing", "mps")
    return False


def can_be_listed(resource: str) -> bool:
    """Whether ``nvidia-smi -L`` in a pod lists devices of this resource."""
    return resource.startswith(VENDOR) and resource not in PASSTHROUGH


def places_of(scope: Scope, node: Node) -> list[Place]:
    """Every device resource of a node, free or not, whatever the state of the node, and what can be claimed.

    Devices that a plugin may offer too are left out: neither plugin nor DRA driver knows what the other gave away (ADV-05).
    """
    view = view_of(scope, node)
    found = [
        Place(
            node=node,
            view=view,
            resource=resource,
            free=max(scope.free(node, resource), 0),
            capacity=count,
            shared=is_shared(node, view, resource),
        )
        for resource, count in sorted(scope.device_allocatable(node).items())
        if count > 0
    ]
    plugin = [place.resource for place in found]
    claims = [item for item in claimable(scope, node) if all(other_devices(item.driver, resource) for resource in plugin)]
    return found + [_claimed(scope, node, item) for item in claims]


def asked_by(scope: Scope, device_class: str) -> str:
    """The name by which a probe asks for devices of a DeviceClass: as pods of the cluster's users would.

    An extended resource is what the class's author offers beside claims. Where another class serves that name, a claim is left.
    """
    known = scope.claims.classes.get(device_class)
    extended = known.extended_resource if known is not None else ""
    return extended if extended and scope.claims.serving[extended] == device_class else f"{BY_CLASS}{device_class}"


def _claimed(scope: Scope, node: Node, item: Claimable) -> Place:
    return Place(
        node=node,
        view=view_of(scope, node),
        resource=asked_by(scope, item.device_class),
        device_class=item.device_class,
        free=item.free,
        capacity=item.capacity,
        shared=item.shared,
        driver=item.driver,
        product=item.product,
        devices=item.devices,
    )


def why_unlistable(place: Place) -> str:
    """Why a pod cannot list devices of a place, or empty."""
    if place.driver:
        return "" if place.driver == NVIDIA_DRIVER else f"devices are seen with nvidia-smi, and it offers those of {place.driver}"
    return "" if can_be_listed(place.resource) else f"devices are seen with nvidia-smi, and it offers {place.resource}"


def usable_places(scope: Scope) -> list[Place]:
    """Every device resource of every usable node, free or not: most free first, then by node and resource."""
    found = [place for node in scope.usable_nodes for place in places_of(scope, node)]
    return sorted(found, key=lambda place: (-place.free, place.node.name, place.resource))


def listable_places(scope: Scope, unlistable: Callable[[Place], str] = why_unlistable) -> list[Place]:
    """Offers whose devices a pod can list. Raises :class:`NotApplicable` when there are no devices, or none of a vendor this can ask.

    ``unlistable`` says why a pod cannot, or nothing.
    """
    found = usable_places(scope)
    if not found:
        raise NotApplicable("NoUsableDevice", "no Ready, schedulable node offers a device")
    asked = [place for place in found if not unlistable(place)]
    if not asked:
        names = ", ".join(sorted({place.resource for place in found}))
        raise NotApplicable("NoListingForVendor", f"devices are seen with nvidia-smi, and this cluster offers {names} only")
    return asked


def runtime_classes(scope: Scope) -> dict[str, str]:
    """Handler of each RuntimeClass, by name in order; empty where the kind is not served or not in a saved snapshot."""
    listing = scope.snapshot.listing("node.k8s.io/runtimeclasses")
    return dict(sorted((str((item.get("metadata") or {}).get("name")), str(item.get("handler"))) for item in listing.objects))
