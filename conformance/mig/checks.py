"""MIG-02, 03, 04 and 06: which MIG resources nodes advertise, and whether such a layout is possible."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.devices.arithmetic import TIMES
from conformance.mig.manager_state import CHANGING
from conformance.mig.mig_nodes import MIG_RESOURCE, MigNode, geometry_words, mig_nodes, words
from conformance.mig.requested_layout import Requests
from conformance.outputs import mig_geometry
from conformance.outputs.node_labels import GPU, capacity_inconsistencies
from conformance.scope.scope import Scope, subject
from fixtures.verdict.findings import Finding, Subject, bad, not_judged, ok

_STATUS = "node.status.capacity, node labels"


def _part(item: MigNode, name: str) -> Subject:
    return Subject("Node", f"{item.node.name} {name}")


# -- MIG-02 ------------------------------------------------------------------------------------------


def check_single(scope: Scope) -> Iterator[Finding]:
    """One finding per node with strategy ``single`` whose devices are cut."""
    for item in mig_nodes(scope):
        if item.strategy != "single":
            continue
        product = item.view.gpu.product
        if not product.mig_profile and not product.mig_invalid:
            yield not_judged(
                subject(item.node), message="strategy single with MIG off: its devices are whole", source="label nvidia.com/gpu.product"
            )
        elif item.view.mig_config_state in CHANGING:
            yield not_judged(
                subject(item.node), message="its geometry is being changed (MIG-01)", source="label nvidia.com/mig.config.state"
            )
        elif item.elsewhere:
            yield not_judged(subject(item.node), message=item.elsewhere, source="node labels, ResourceSlices")
        else:
            yield _single(item)


def _single(item: MigNode) -> Finding:
    gpu = item.view.gpu
    product, name = gpu.product, gpu.advertised_as
    units, count = item.capacity.get(name, 0), gpu.count or 0
    expected = f"{name} {count * gpu.factor} = {count} instances {TIMES} {gpu.factor}, one profile on all devices"
    observed = f"{name} {units}, product {product.text}"
    if product.mig_invalid:
        message = "the node's devices are not all cut into one profile: with strategy single, the plugin then offers none of them"
        return bad(
            subject(item.node),
            cause="MigCutUnevenly",
            observed=observed,
            expected="one profile on all devices",
            source="label nvidia.com/gpu.product",
            message=message,
        )
    if mig_geometry.max_instances(item.model, product.mig_profile) == 0:
        message = f"its product label names the profile {product.mig_profile}, which {item.model} does not have"
        return bad(
            subject(item.node),
            cause="MigLayoutImpossible",
            observed=observed,
            expected=geometry_words(item.model),
            source="label nvidia.com/gpu.product",
            message=message,
        )
    compute = product.mig_profile.partition("g")[0]
    stated = item.node.metadata.label.get("nvidia.com/gpu.slices.gi", compute)
    if stated != compute:
        message = (
            f"its product label says {product.mig_profile} and nvidia.com/gpu.slices.gi says {stated}: one of them is of another geometry"
        )
        return bad(
            subject(item.node),
            cause="MigLayoutImpossible",
            observed=f"slices.gi {stated}, product {product.text}",
            expected=f"slices.gi {compute}",
            source="node labels",
            message=message,
        )
    if item.mig_resources:
        name = next(iter(item.mig_resources))
        message = f"it advertises {name}, which strategy single does not offer: pods that ask for it hold devices twice"
        return bad(
            subject(item.node),
            cause="MigResourceLeft",
            observed=f"{name} {item.mig_resources[name]}",
            expected=expected,
            source=_STATUS,
            message=message,
        )
    if units != count * gpu.factor:
        message = f"it advertises {units} {name} and has {count} instances of {product.mig_profile} {TIMES} {gpu.factor}"
        return bad(subject(item.node), cause="MigCountsDisagree", observed=observed, expected=expected, source=_STATUS, message=message)
    return ok(subject(item.node), observed=observed, expected=expected, source=_STATUS)


# -- MIG-03 ------------------------------------------------------------------------------------------


def check_mixed(scope: Scope) -> Iterator[Finding]:
    """One finding per node with strategy ``mixed`` and MIG resource, and one for its whole devices."""
    requests = Requests(scope)
    for item in mig_nodes(scope):
        if item.strategy != "mixed":
            continue
        entries = {entry.advertised_as: entry for entry in item.view.mig}
        names = sorted({name for name, entry in entries.items() if entry.count} | item.mig_resources.keys())
        if item.view.mig_config_state in CHANGING:
            yield not_judged(
                subject(item.node), message="its geometry is being changed (MIG-01)", source="label nvidia.com/mig.config.state"
            )
            continue
        if item.elsewhere:
            yield not_judged(subject(item.node), message=item.elsewhere, source="node labels, ResourceSlices")
            continue
        if not names:
            yield not_judged(subject(item.node), message="strategy mixed and no MIG device: its devices are whole or empty", source=_STATUS)
            continue
        for name in names:
            yield _profile(item, name, requests)
        yield _whole(item)


def _profile(item: MigNode, name: str, requests: Requests) -> Finding:
    place = _part(item, name)
    profile = mig_geometry.profile_of(name)
    units = item.capacity.get(name, 0)
    entry = next((entry for entry in item.view.mig if entry.advertised_as == name), None)
    if profile is None or mig_geometry.max_instances(item.model, profile) == 0:
        message = f"{name} is no profile of {item.model}: no such device can exist, and pods that ask for it get something else or nothing"
        return bad(
            place,
            cause="MigLayoutImpossible",
            observed=f"{name} {units}",
            expected=geometry_words(item.model),
            source="node.status.capacity",
            message=message,
        )
    count, factor = (entry.count or 0, entry.factor) if entry else (0, 1)
    formula = f"{count} {TIMES} {factor}"
    observed = f"{name} {units}, label count {count}"
    if units != count * factor:
        message = f"it advertises {units} {name} and its labels give {formula}"
        return bad(
            place, cause="MigCountsDisagree", observed=observed, expected=f"{count * factor} = {formula}", source=_STATUS, message=message
        )
    if item.settled and item.all_cut and item.devices is not None and item.view.mig_config:
        request = requests.of(item)
        total = request.wanted.total(item.devices.devices) if request.wanted else None
        if total is not None and request.wanted is not None:
            per_device = (request.wanted.per_device or {}).get(profile)
            how = f"{item.devices.devices} devices {TIMES} {per_device}" if per_device else f"of {item.view.mig_config}"
            expected = f"{total.get(profile, 0)} = {how}"
            if total.get(profile, 0) != count:
                message = f"it has {count} instances of {profile}; mig.config {item.view.mig_config!r} gives {expected}"
                return bad(place, cause="LayoutNotApplied", observed=observed, expected=expected, source=request.source, message=message)
            return ok(place, observed=observed, expected=f"{expected}, {TIMES} {factor}", source=f"{_STATUS}, {request.source}")
    return ok(place, observed=observed, expected=f"{count * factor} = {formula}", source=_STATUS)


def _whole(item: MigNode) -> Finding:
    """Whole devices are those that are not cut: none of them may be counted a second time as instances."""
    gpu = item.view.gpu
    place, units = _part(item, gpu.advertised_as), item.capacity.get(gpu.advertised_as, 0)
    faults = [fault for fault in capacity_inconsistencies(item.view) if fault.what.startswith(f"capacity {GPU}")]
    observed = f"{gpu.advertised_as} {units}"
    if faults:
        message = (
            f"it advertises {faults[0].observed} whole devices beside its instances, expected {faults[0].expected} ({faults[0].source})"
        )
        return bad(place, cause="MigCountsDisagree", observed=observed, expected=faults[0].expected, source=_STATUS, message=message)
    return ok(
        place,
        observed=observed,
        expected="0, all devices are cut" if item.all_cut else "the devices that are not cut, once",
        source=_STATUS,
    )


# -- MIG-04 ------------------------------------------------------------------------------------------


def check_geometry(scope: Scope) -> Iterator[Finding]:
    """One finding per node with MIG devices: its instances fit on its devices by the product's table."""
    for item in mig_nodes(scope):
        if not item.layout:
            continue
        geometry = mig_geometry.geometry_of(item.model)
        known = {profile: count for profile, count in item.layout.items() if geometry is None or profile in geometry.maxima}
        source = f"labels of instances, geometry of {geometry.name}" if geometry else "labels of instances"
        if geometry is None:
            yield not_judged(subject(item.node), message=f"no geometry table is known for {item.model or 'its product'}", source=source)
        elif not known:
            yield not_judged(
                subject(item.node), message=f"{words(item.layout)}: no profile of {geometry.name} (MIG-02, MIG-03)", source=source
            )
        elif item.devices is None:
            message = "strategy single labels instances and not devices; advertisement.devicesPerNode of the policy can state them"
            yield not_judged(subject(item.node), message=message, source=source)
        else:
            devices = item.devices.devices
            possible, reason = mig_geometry.fits_devices(item.model, devices, known)
            observed = f"{words(item.layout)} on {devices} devices ({item.devices.source})"
            if possible:
                yield ok(subject(item.node), observed=observed, expected=geometry_words(item.model), source=source)
            else:
                message = f"the geometry is impossible: {reason}; labels and capacity claim devices that cannot exist"
                yield bad(
                    subject(item.node),
                    cause="MigLayoutImpossible",
                    observed=observed,
                    expected=geometry_words(item.model),
                    source=source,
                    message=message,
                )


# -- MIG-06 ------------------------------------------------------------------------------------------


def check_off(scope: Scope) -> Iterator[Finding]:
    """One finding per NVIDIA node with strategy ``none`` or with MIG turned off: no MIG resource, label or product is left."""
    for item in mig_nodes(scope):
        disabled = item.view.mig_config == "all-disabled" and item.settled
        if item.strategy != "none" and not disabled:
            continue
        if item.mig_resources and not (item.view.labelled or item.view.gpu.product.text or item.view.mig_config):
            names = ", ".join(item.mig_resources)
            yield not_judged(
                subject(item.node),
                message=f"it offers {names} and no label of GPU Feature Discovery names its MIG strategy",
                source=_STATUS,
            )
            continue
        why = "mig.config is all-disabled" if disabled else "MIG strategy none"
        expected = f"no {MIG_RESOURCE}* in capacity, allocatable and labels ({why})"
        left = [f"{name} {count}" for name, count in item.mig_resources.items()]
        left += [f"label {entry.resource}.count {entry.count}" for entry in item.view.mig if entry.count]
        if item.view.gpu.product.mig_profile:
            left.append(f"product {item.view.gpu.product.text}")
        if left:
            message = f"{left[0]} is left although {why}: pods that ask for it are bound to instances that are gone"
            yield bad(
                subject(item.node), cause="MigResourceLeft", observed=", ".join(left), expected=expected, source=_STATUS, message=message
            )
        else:
            yield ok(subject(item.node), observed="no MIG resource", expected=expected, source=_STATUS)
