"""MIG-02 to MIG-06: which MIG resources nodes advertise, whether that layout is possible, and whether it is the requested one."""

from collections.abc import Iterator

from conformance.mig.managers import is_changing
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices import mig_geometry
from fixtures.model.devices.counts import TIMES
from fixtures.model.devices.mig_layouts import Request, Requested, Requests
from fixtures.model.devices.mig_nodes import CONFIG, MIG_RESOURCE, MigNode, geometry_words, mig_nodes, words
from fixtures.model.devices.node_advertisement import GPU
from fixtures.model.devices.node_labels import capacity_inconsistencies
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject


def check_applied(scope: Scope) -> Iterator[Finding]:
    """One finding per node with ``mig.config``: requested layout and labelled layout are the same."""
    requests = Requests(scope)
    for item in mig_nodes(scope):
        if item.view.mig_config:
            yield _applied(item, requests.of(item))


def _applied(item: MigNode, request: Request) -> Finding:
    name, source = item.view.mig_config, f"label {CONFIG}, {request.source}"
    observed = words(item.layout)
    about = About(subject(item.node), source)
    if not item.settled:
        state = item.view.mig_config_state or "absent"
        return about.not_judged(f"the state is {state}: labels show the last applied geometry (MIG-01)", source=f"label {CONFIG}.state")
    if request.wanted is None:
        if request.missing:
            message, found = f"{request.problem}: nothing says which slices the devices must have", f"{name!r}: {observed}"
            return about.bad(message, cause="LayoutConfigMissing", observed=found, expected="a configuration of that name")
        return about.undecided(request.problem)
    if item.view.gpu.product.mig_invalid:
        return about.not_judged("MIG-INVALID: its labels hold no layout (MIG-02)", source="label nvidia.com/gpu.product")
    if item.strategy == "none" and any(row.layout for row in request.wanted.rows):
        return about.not_judged(f"MIG strategy none hides the layout of {name!r}: devices are counted whole")
    expected, agrees = _expected(item, request.wanted)
    if agrees is None:
        return about.undecided(f"{name!r} asks for {expected}, and nothing tells what that is on this node")
    if agrees and not request.read:
        message = f"it has the layout of {name!r} in {request.source}; the ConfigMap that the node's manager reads was not found"
        return about.not_judged(message)
    if agrees:
        return about.ok(observed, expected=f"{name!r}: {expected}")
    message = f"mig.config {name!r} is reported as applied and asks for {expected}; the devices have {observed}: jobs find the wrong slices"
    return about.bad(message, cause="LayoutNotApplied", observed=observed, expected=f"{name!r}: {expected}")


def _expected(item: MigNode, wanted: Requested) -> tuple[str, bool | None]:
    """The requested layout in words, and whether the node has it; None if that is unknown."""
    per_device = wanted.per_device
    if item.devices is not None:
        total = wanted.total(item.devices.devices)
        if total is not None:
            how = f" ({item.devices.devices} devices {TIMES} {words(per_device)})" if per_device else ""
            return f"{words(total)}{how}", total == {profile: count for profile, count in item.layout.items() if count}
    if per_device is None:
        layouts = " or ".join(dict.fromkeys(words(row.layout) for row in wanted.rows))
        return f"{layouts} on some devices", None
    text = f"{words(per_device)} on every device"
    if not per_device or len(per_device) > 1 or item.layout.keys() != per_device.keys():
        return text, dict(item.layout) == per_device
    ((profile, each),) = per_device.items()
    return text, each > 0 and item.layout[profile] > 0 and item.layout[profile] % each == 0


_STATUS = "node.status.capacity, node labels"
_PRODUCT = "label nvidia.com/gpu.product"


def _about(item: MigNode, name: str = "") -> About:
    return About(Subject("Node", f"{item.node.name} {name}".rstrip()), _STATUS)


def _not_now(item: MigNode) -> Finding | None:
    """The finding about a node whose layout is not judged now, or not here; None for others."""
    if is_changing(item.view.mig_config_state):
        return _about(item).not_judged("its geometry is being changed (MIG-01)", source="label nvidia.com/mig.config.state")
    return _about(item).not_judged(item.elsewhere, source="node labels, ResourceSlices") if item.elsewhere else None


# -- MIG-02 ------------------------------------------------------------------------------------------


def check_single(scope: Scope) -> Iterator[Finding]:
    """One finding per node with strategy ``single`` whose devices are cut."""
    for item in mig_nodes(scope):
        if item.strategy != "single":
            continue
        product = item.view.gpu.product
        if not product.mig_profile and not product.mig_invalid:
            yield _about(item).not_judged("strategy single with MIG off: its devices are whole", source=_PRODUCT)
        else:
            yield _not_now(item) or _single(item)


def _single(item: MigNode) -> Finding:
    gpu = item.view.gpu
    product, name = gpu.product, gpu.advertised_as
    units, count = item.capacity.get(name, 0), gpu.count or 0
    expected = f"{name} {count * gpu.factor} = {count} instances {TIMES} {gpu.factor}, one profile on all devices"
    about = About(subject(item.node), _STATUS, expected, f"{name} {units}, product {product.text}")
    if product.mig_invalid:
        message = "the node's devices are not all cut into one profile: with strategy single, the plugin then offers none of them"
        return about.bad(message, cause="MigCutUnevenly", expected="one profile on all devices", source=_PRODUCT)
    if mig_geometry.max_instances(item.model, product.mig_profile) == 0:
        message = f"its product label names the profile {product.mig_profile}, which {item.model} does not have"
        return about.bad(message, cause="MigLayoutImpossible", expected=geometry_words(item.model), source=_PRODUCT)
    compute = product.mig_profile.partition("g")[0]
    stated = item.node.metadata.label.get("nvidia.com/gpu.slices.gi", compute)
    if stated != compute:
        message = f"its product label says {product.mig_profile} and nvidia.com/gpu.slices.gi says {stated}: one is of another geometry"
        observed, wanted = f"slices.gi {stated}, product {product.text}", f"slices.gi {compute}"
        return about.bad(message, cause="MigLayoutImpossible", observed=observed, expected=wanted, source="node labels")
    if item.mig_resources:
        name = next(iter(item.mig_resources))
        message = f"it advertises {name}, which strategy single does not offer: pods that ask for it hold devices twice"
        return about.bad(message, cause="MigResourceLeft", observed=f"{name} {item.mig_resources[name]}")
    if units != count * gpu.factor:
        message = f"it advertises {units} {name} and has {count} instances of {product.mig_profile} {TIMES} {gpu.factor}"
        return about.bad(message, cause="MigCountsDisagree")
    return about.ok()


# -- MIG-03 ------------------------------------------------------------------------------------------


def check_mixed(scope: Scope) -> Iterator[Finding]:
    """One finding per node with strategy ``mixed`` and MIG resource, and one for its whole devices."""
    requests = Requests(scope)
    for item in mig_nodes(scope):
        if item.strategy != "mixed":
            continue
        entries = {entry.advertised_as: entry for entry in item.view.mig}
        names = sorted({name for name, entry in entries.items() if entry.count} | item.mig_resources.keys())
        if finding := _not_now(item):
            yield finding
        elif not names:
            yield _about(item).not_judged("strategy mixed and no MIG device: its devices are whole or empty")
        else:
            yield from (_profile(item, name, requests) for name in names)
            yield _whole(item)


def _profile(item: MigNode, name: str, requests: Requests) -> Finding:
    about, profile, units = _about(item, name), mig_geometry.profile_of(name), item.capacity.get(name, 0)
    entry = next((entry for entry in item.view.mig if entry.advertised_as == name), None)
    if profile is None or mig_geometry.max_instances(item.model, profile) == 0:
        message = f"{name} is no profile of {item.model}: no such device can exist, and pods that ask for it get something else or nothing"
        expected, source = geometry_words(item.model), "node.status.capacity"
        return about.bad(message, cause="MigLayoutImpossible", observed=f"{name} {units}", expected=expected, source=source)
    count, factor = (entry.count or 0, entry.factor) if entry else (0, 1)
    formula = f"{count} {TIMES} {factor}"
    observed, expected = f"{name} {units}, label count {count}", f"{count * factor} = {formula}"
    if units != count * factor:
        message = f"it advertises {units} {name} and its labels give {formula}"
        return about.bad(message, cause="MigCountsDisagree", observed=observed, expected=expected)
    if item.settled and item.all_cut and item.devices is not None and item.view.mig_config:
        request = requests.of(item)
        total = request.wanted.total(item.devices.devices) if request.wanted else None
        if total is not None and request.wanted is not None:
            per_device = (request.wanted.per_device or {}).get(profile)
            how = f"{item.devices.devices} devices {TIMES} {per_device}" if per_device else f"of {item.view.mig_config}"
            wanted = f"{total.get(profile, 0)} = {how}"
            if total.get(profile, 0) != count:
                message = f"it has {count} instances of {profile}; mig.config {item.view.mig_config!r} gives {wanted}"
                return about.bad(message, cause="LayoutNotApplied", observed=observed, expected=wanted, source=request.source)
            return about.ok(observed, expected=f"{wanted}, {TIMES} {factor}", source=f"{_STATUS}, {request.source}")
    return about.ok(observed, expected=expected)


def _whole(item: MigNode) -> Finding:
    """Whole devices are those that are not cut: none of them may be counted a second time as instances."""
    name = item.view.gpu.advertised_as
    about, observed = _about(item, name), f"{name} {item.capacity.get(name, 0)}"
    faults = [fault for fault in capacity_inconsistencies(item.view) if fault.what.startswith(f"capacity {GPU}")]
    if faults:
        beside, expected = f"{faults[0].observed} whole devices beside its instances", faults[0].expected
        message = f"it advertises {beside}, expected {expected} ({faults[0].source})"
        return about.bad(message, cause="MigCountsDisagree", observed=observed, expected=expected)
    return about.ok(observed, expected="0, all devices are cut" if item.all_cut else "the devices that are not cut, once")


# -- MIG-04 ------------------------------------------------------------------------------------------


def check_geometry(scope: Scope) -> Iterator[Finding]:
    """One finding per node with MIG devices: its instances fit on its devices by the product's table."""
    yield from (_geometry(item) for item in mig_nodes(scope) if item.layout)


def _geometry(item: MigNode) -> Finding:
    geometry = mig_geometry.geometry_of(item.model)
    about = About(subject(item.node), f"labels of instances, geometry of {geometry.name}" if geometry else "labels of instances")
    if geometry is None:
        return about.not_judged(f"no geometry table is known for {item.model or 'its product'}")
    known = {profile: count for profile, count in item.layout.items() if profile in geometry.maxima}
    if not known:
        return about.not_judged(f"{words(item.layout)}: no profile of {geometry.name} (MIG-02, MIG-03)")
    if item.devices is None:
        known_by = "advertisement.devicesPerNode of the policy can state them"
        return about.not_judged(f"strategy single labels instances and not devices; {known_by}")
    possible, reason = mig_geometry.fits_devices(item.model, item.devices.devices, known)
    observed = f"{words(item.layout)} on {item.devices.devices} devices ({item.devices.source})"
    if possible:
        return about.ok(observed, expected=geometry_words(item.model))
    message = f"the geometry is impossible: {reason}; labels and capacity claim devices that cannot exist"
    return about.bad(message, cause="MigLayoutImpossible", observed=observed, expected=geometry_words(item.model))


# -- MIG-06 ------------------------------------------------------------------------------------------


def check_off(scope: Scope) -> Iterator[Finding]:
    """One finding per NVIDIA node with strategy ``none`` or with MIG turned off: no MIG resource, label or product is left."""
    for item in mig_nodes(scope):
        disabled = item.view.mig_config == "all-disabled" and item.settled
        if item.strategy == "none" or disabled:
            yield _off(item, "mig.config is all-disabled" if disabled else "MIG strategy none")


def _off(item: MigNode, why: str) -> Finding:
    about = About(subject(item.node), _STATUS, f"no {MIG_RESOURCE}* in capacity, allocatable and labels ({why})")
    if item.mig_resources and not (item.view.labelled or item.view.gpu.product.text or item.view.mig_config):
        return about.not_judged(f"it offers {', '.join(item.mig_resources)} and no label of GPU Feature Discovery names its MIG strategy")
    left = [f"{name} {count}" for name, count in item.mig_resources.items()]
    left += [f"label {entry.resource}.count {entry.count}" for entry in item.view.mig if entry.count]
    if item.view.gpu.product.mig_profile:
        left.append(f"product {item.view.gpu.product.text}")
    if left:
        message = f"{left[0]} is left although {why}: pods that ask for it are bound to instances that are gone"
        return about.bad(message, cause="MigResourceLeft", observed=", ".join(left))
    return about.ok("no MIG resource")
