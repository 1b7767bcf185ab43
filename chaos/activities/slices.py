"""ResourceSlices that go away while their driver runs, as when a kubelet wipes them."""

from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.activities.base import accepted, current, listed, plan_facts, read_target, target_record, targets
from chaos.ledger.undos.agents import SLICES, SlicesPublished
from fixtures.model.dra.nvidia_driver import DRA_DRIVER, DRA_PLUGIN, slices_for
from fixtures.model.objects import name_of, uid_of


def wipe() -> dict[str, Any]:
    """Delete what the planned plugin's driver has published for its node, each slice only if it still is that very one.

    The plugin itself goes on: a kubelet wipes the slices of a plugin that was away for half a minute (docs/facts/dra.md#outages).
    """
    acting, plugin = current(), plan_facts().components.get(DRA_PLUGIN)
    (target,) = targets("pods")
    read_target(target)
    if plugin is None:
        raise ActivityFailed("the plan knows no DRA driver")
    found = slices_for(listed(SLICES, fields=f"spec.nodeName={target.node}"), (target.node,), DRA_DRIVER)
    owner = {"namespace": plugin.namespace, "owner": plugin.name, "owner_uid": plugin.uid, "selector": plugin.selector}
    try:
        args = SlicesPublished().args(DRA_DRIVER, target.node, found, owner)
    except ValueError as error:
        raise ActivityFailed(str(error)) from error
    names = sorted(name_of(item) for item in found)
    with acting.fault("slices.published", args) as fault:
        for item in found:
            gone = acting.cluster.delete(SLICES, name_of(item), uid=uid_of(item))
            if gone.status != 404:
                accepted(gone, f"delete ResourceSlice {name_of(item)}")
        fault.applied({"deleted": names, "node": target.node})
    return {**target_record(target), "slices": names}
