"""Taints of claimed devices by DeviceTaintRules: what a health monitor or an administrator sets, and takes back."""

from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_pods
from chaos.activities.base import create, current, own_namespace, plan_facts
from chaos.model.plan import canary_namespace
from chaos.model.records import PREPARATION
from chaos.observe.view import View
from fixtures.kubernetes.models import Json
from fixtures.model.dra.inventory import taint_rule
from fixtures.model.dra.nvidia_driver import PublishedDevice, allocated_devices, published_devices, tainting_rules
from fixtures.model.dra.slices import CLAIMS, TAINT_RULES
from fixtures.model.objects import full_name

TAINT_KEY = "gpu-conformance.io/chaos"
CONTENDER = "contender"
VICTIM = "victim"
HELD, FREE = "held", "free"


def taint_device(effect: str, device: str) -> dict[str, Any]:
    """Taint one device of the target node: the one that the victim holds (``held``), or the last one that nobody does (``free``).

    The rule names driver, pool and device: one with less would taint others too. Raises ActivityFailed where somebody else uses the
    device, with admin access or without: a NoExecute taint would evict that pod.
    """
    acting = current()
    view = View.of(acting.cluster)
    chosen = _held(view) if device == HELD else _free(view)
    rule: Json = {
        "apiVersion": "/".join(acting.cluster.path(TAINT_RULES).split("/")[2:4]),
        "kind": "DeviceTaintRule",
        "metadata": {"name": acting.plan.namespace if device == HELD else canary_namespace(acting.plan)},
        "spec": {
            "deviceSelector": {"driver": chosen.driver, "pool": chosen.pool, "device": chosen.name},
            "taint": {"key": TAINT_KEY, "value": acting.plan.run_id, "effect": effect},
        },
    }
    create(TAINT_RULES, rule, preparation=False)
    return {"device": f"{chosen.driver}/{chosen.pool}/{chosen.name}", "effect": effect}


def start_contender() -> dict[str, Any]:
    """Create a worker that claims the free device that is tainted, else the held one. It is not waited for: it has to stay Pending."""
    acting = current()
    view = View.of(acting.cluster)
    rules = {rule.name: rule for item in tainting_rules(view) if (rule := taint_rule(item))}
    rule = rules.get(canary_namespace(acting.plan)) or rules.get(acting.plan.namespace)
    if rule is None:
        raise ActivityFailed("no rule of this experiment taints a device that could be claimed")
    known = next((one for key, one in published_devices(view).items() if key == rule.wanted), None)
    if known is None or not known.uuid:
        raise ActivityFailed(f"{rule.wanted[2]} has no UUID by which it alone could be claimed")
    namespace = own_namespace()
    expression = f"device.attributes['{known.driver}'].uuid == '{known.uuid}'"
    create(CLAIMS, canary_pods.claim(plan_facts(), CONTENDER, 1, expression=expression), namespace)
    pod = canary_pods.worker(acting.plan, plan_facts(), CONTENDER, node=acting.plan.nodes[0])
    made = create("pods", pod, namespace, grace=0)
    return {"name": CONTENDER, "uid": made["metadata"]["uid"], "device": known.id, PREPARATION: True}


def _held(view: View) -> PublishedDevice:
    """The device of the victim's claim, which nobody else may use."""
    victim = f"{canary_namespace(current().plan)}/{VICTIM}"
    claims = view.select(CLAIMS)
    devices = [key for claim in claims if full_name(claim) == victim for key in allocated_devices(claim)]
    known = published_devices(view)
    if len(devices) != 1 or devices[0] not in known:
        raise ActivityFailed("the victim holds no published device")
    others = [full_name(claim) for claim in claims if devices[0] in allocated_devices(claim, admin=True) and full_name(claim) != victim]
    if others:
        raise ActivityFailed(f"{'/'.join(devices[0])} is used by claim {others[0]} too, whose pods a taint would reach")
    return known[devices[0]]


def _free(view: View) -> PublishedDevice:
    """The last device of the target node that no claim names."""
    taken = {device for claim in view.select(CLAIMS) for device in allocated_devices(claim, admin=True)}
    known = published_devices(view)
    free = sorted(key for key, one in known.items() if one.node in current().plan.nodes and not one.tainted and key not in taken)
    if not free:
        raise ActivityFailed("no device of the target node is free")
    return known[free[-1]]
