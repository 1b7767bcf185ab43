"""The cluster at planning, seen through claims: nodes whose devices a DRA driver publishes instead of a plugin."""

from __future__ import annotations

from chaos.observe.dra_inventory import RESOURCE, allocated_devices, claims_of, published_devices
from chaos.observe.view import name_of
from chaos.plan.selectors.base import PlanningView
from fixtures.kubernetes.models import Json
from fixtures.model.dra.kinds import CLAIMS


class ClaimPlanningView(PlanningView, kw_only=True):
    """A :class:`PlanningView` whose devices are those of ResourceSlices and whose holders are pods with claims."""

    def devices(self, node: Json, field: str) -> dict[str, int]:
        """Devices published for a node; ``allocatable`` are those without a taint."""
        found = [
            one for one in published_devices(self.view).values() if one.node == name_of(node) and (field == "capacity" or not one.tainted)
        ]
        return {RESOURCE: len(found)} if found else {}

    def held(self, pod: Json) -> int:
        """Devices that the pod's claims hold."""
        return sum(len(allocated_devices(claim)) for claim in claims_of(pod, self.view.select(CLAIMS)))

    def free(self, node: Json) -> int:
        """Devices of a node that no claim holds, in use or not."""
        taken = {device for claim in self.view.select(CLAIMS) for device in allocated_devices(claim)}
        published = published_devices(self.view).items()
        return sum(one.node == name_of(node) and not one.tainted and key not in taken for key, one in published)
