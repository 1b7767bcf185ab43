"""MIG-05: the layout on the devices is the one that the node's ``mig.config`` asks for."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adv.arithmetic import TIMES
from conformance.mig.parted import Requested
from conformance.mig.requests import Request, Requests
from conformance.mig.slices import CONFIG, MigNode, mig_nodes, words
from conformance.scope import Scope, subject
from fixtures.evidence import Finding, bad, not_judged, ok, undecided


def check_applied(scope: Scope) -> Iterator[Finding]:
    """One finding per node with ``mig.config``: requested layout and labelled layout are the same."""
    requests = Requests(scope)
    for item in mig_nodes(scope):
        if item.view.mig_config:
            yield _applied(item, requests.of(item))


def _applied(item: MigNode, request: Request) -> Finding:
    name, source = item.view.mig_config, f"label {CONFIG}, {request.source}"
    observed = words(item.layout)
    if not item.settled:
        state = item.view.mig_config_state or "absent"
        return not_judged(
            subject(item.node), f"the state is {state}: labels show the last applied geometry (MIG-01)", f"label {CONFIG}.state"
        )
    if request.wanted is None:
        if request.missing:
            message = f"{request.problem}: what is on the devices is not what anybody can ask for"
            return bad(subject(item.node), f"{name!r}: {observed}", "a configuration of that name", source, message)
        return undecided(subject(item.node), request.problem, source)
    if item.view.gpu.product.mig_invalid:
        return not_judged(subject(item.node), "MIG-INVALID: its labels hold no layout (MIG-02)", "label nvidia.com/gpu.product")
    if item.strategy == "none" and any(row.layout for row in request.wanted.rows):
        return not_judged(subject(item.node), f"MIG strategy none hides the layout of {name!r}: devices are counted whole", source)
    expected, agrees = _expected(item, request.wanted)
    if agrees is None:
        return undecided(subject(item.node), f"{name!r} asks for {expected}, and what that is on this node cannot be told", source)
    if agrees and not request.read:
        message = f"it has what {name!r} is in {request.source}; the ConfigMap that the node's manager reads was not found"
        return not_judged(subject(item.node), message, source)
    if agrees:
        return ok(subject(item.node), observed, f"{name!r}: {expected}", source)
    message = f"mig.config {name!r} is reported as applied and asks for {expected}; the devices have {observed}: jobs find other slices"
    return bad(subject(item.node), observed, f"{name!r}: {expected}", source, message)


def _expected(item: MigNode, wanted: Requested) -> tuple[str, bool | None]:
    """What is asked for in words, and whether the node's layout is that; None when it cannot be told."""
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
