"""MIG-05: the layout on the devices is the one that the node's ``mig.config`` asks for."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.mig.mig_nodes import CONFIG, MigNode, mig_nodes, words
from conformance.mig.mig_parted import Requested
from conformance.mig.requested_layout import Request, Requests
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.arithmetic import TIMES
from fixtures.verdict.findings import About, Finding


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
            message = f"{request.problem}: nothing says which slices the devices must have"
            return about.bad(
                message, cause="LayoutConfigMissing", observed=f"{name!r}: {observed}", expected="a configuration of that name"
            )
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
