"""Signals of dynamic resource allocation: the experiment's claims and the devices that drivers publish."""

from __future__ import annotations

import json

from chaos.model.conditions import JsonValue
from chaos.model.plan_facts import canary_namespace
from chaos.observe import dra_inventory
from chaos.observe.dra_inventory import CLAIMS, SLICES
from chaos.observe.sample import Reading
from chaos.observe.view import View, dig, full_name, items_of, name_of, text_of


def allocations(reading: Reading) -> JsonValue:
    """``{claim: allocated devices}`` of the experiment's claims, as ``driver/pool/device``."""
    found = {}
    for claim in View.at(reading).select(CLAIMS, canary_namespace(reading.plan)):
        results = items_of(dig(claim, "status", "allocation", "devices").get("results"))
        found[name_of(claim)] = sorted("/".join(text_of(item.get(key)) for key in ("driver", "pool", "device")) for item in results)
    return found


def held(reading: Reading) -> JsonValue:
    """``{namespace/claim: allocated devices}`` of every claim that holds devices of the target nodes, as ``pool/device``."""
    found = {}
    view = View.at(reading)
    here = {key for key, device in dra_inventory.published_devices(view).items() if device.node in reading.plan.nodes}
    pools = {pool for _, pool, _ in here} | set(reading.plan.nodes)  # drivers name a node's pool after it: claims outlive slices
    for claim in view.select(CLAIMS):
        if own := sorted(f"{pool}/{device}" for _, pool, device in dra_inventory.allocated_devices(claim) if pool in pools):
            found[full_name(claim)] = own
    return found


def devices(reading: Reading) -> JsonValue:
    """Devices that ResourceSlices publish for the target nodes, with their taints, sorted."""
    found = []
    for item in View.at(reading).select(SLICES):
        spec = dig(item, "spec")
        if text_of(spec.get("nodeName")) in reading.plan.nodes:
            found += [
                f"{text_of(device.get('name'))} {json.dumps(device.get('taints') or [], sort_keys=True)}"
                for device in items_of(spec.get("devices"))
            ]
    return sorted(found)


SIGNALS = {"claims.allocated": allocations, "claims.held": held, "slices.devices": devices}
