"""HW-10: a device that a pod was given reaches its product's figures, and what its peers reach.

Facts: docs/facts/compute.md#figures.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from statistics import median

from conformance.health.judging import links_of
from conformance.probes.computing import (
    COMPUTES,
    LIMITS_OF_ALL,
    NO_LIBRARY,
    brings_library,
    fault_of,
    faulty,
    has_library,
    image_of,
    listing_pod,
    visible_to,
    why_unchecked,
)
from conformance.probes.node_sampling import PlaceFinding, batches, choose_places, not_reached, per_node
from conformance.probes.running import ProbeResult, run_pods
from fixtures.compute.document import Device
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.placement.free_devices import Place, listable_places, usable_places, why_partial
from fixtures.policy.model import Hardware
from fixtures.probes.workspace import Workspace
from fixtures.tables.rows import DEVICE_FIGURES, Peak
from fixtures.text.sentences import cut, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject

SOURCE = "gpu-conformance compute in a pod with the node's free devices"
_AROUND = 25
"""Seconds that the check of one device takes beside its matrix multiplies."""
_LANE = {3: 0.984e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes in a second of one lane, by generation of PCIe."""

_PEERS = 3
"""From how many devices of one name on their median speaks for a product."""


def peak_of(product: str) -> Peak | None:
    """The row of a device's name; None for a product that no row has."""
    return next((row for row in DEVICE_FIGURES.rows if fnmatchcase(product, row.product)), None)


def _copies(product: str) -> float:
    """Bytes in a second of the product's link to the host in one direction, after its encoding; 0 where it is not judged."""
    peak, links = peak_of(product), links_of(product)
    return _LANE[links.generation] * links.width if peak is not None and peak.copies and links is not None else 0.0


def probe_figures(scope: Scope, workspace: Workspace) -> Iterator[Finding]:
    """A pod with all free devices of each chosen node computes on one after the other, for the seconds of the policy."""
    unchecked, places = functools.partial(why_unchecked, scope), usable_places(scope)
    if places and all(map(unchecked, places)):
        raise NotApplicable("NoSuiteImage", "; ".join(dict.fromkeys(map(unchecked, places))))
    whole = [place for place in listable_places(scope, unchecked) if not _unfit(place)]
    if not whole:
        raise NotApplicable("NoWholeDevice", "every device is shared or divided, or may be, so no pod can measure a whole one")
    asked = _asked(scope, workspace, choose_places(scope, whole))
    yield from per_node(scope, asked, lambda place: unchecked(place) or _unfit(place))


def _unfit(place: Place) -> str:
    """Why units of a place have no figures of a whole device, or nothing."""
    if reason := why_partial(place):
        return f"figures are those of whole devices: {reason}"
    return "others may compute on the same device, so it has no figures of its own" if place.shared else ""


def _asked(scope: Scope, workspace: Workspace, places: Sequence[Place]) -> Iterator[PlaceFinding]:
    """What is found of each device; all are measured first, for they are compared with each other."""
    seconds = scope.policy.hardware.compute_seconds
    ran: list[tuple[Place, ProbeResult]] = []
    for batch in batches(scope, workspace, places, 1):
        asked = {f"hw-10-{number}": place for number, place in batch}
        options = f"--seconds {seconds:.0f} --memory 4096 --patience 60"
        pods = [
            listing_pod(
                scope,
                place.node,
                name,
                resources={place.resource: place.free},
                options=options,
                limits=LIMITS_OF_ALL,
                image=image_of(scope, place),
            )
            for name, place in asked.items()
        ]
        most = max(place.free for place in asked.values())
        found = run_pods(workspace, pods, scope.policy.probes.start_seconds + most * (seconds + _AROUND))
        ran += [(place, found[name]) for name, place in asked.items()]
    measured = {id(result): _devices(result) for _, result in ran}
    usual = usual_figures([device for devices in measured.values() for device in devices])
    for place, result in ran:
        if not measured[id(result)]:
            yield place, _unmeasured(place, result)
        yield from ((place, judge_figures(place.node, device, usual, scope.policy.hardware)) for device in measured[id(result)])
    yield from ((place, not_reached(scope, place.node)) for place in places[len(ran) :])


def _devices(ran: ProbeResult) -> list[Device]:
    """Devices that computed, and those that began to and failed."""
    sight = visible_to(ran)
    return [] if isinstance(sight, str) or sight.computed is None else sight.computed.devices


def _unmeasured(place: Place, ran: ProbeResult) -> Finding:
    """Why no device of a pod was measured."""
    about = About(subject(place.node), SOURCE, f"devices of which each {COMPUTES}")
    if brings_library(place) and not ran.trouble and not has_library(ran):
        return about.not_judged(NO_LIBRARY)
    sight = visible_to(ran)
    if isinstance(sight, str) or sight.computed is None:
        message = sight if isinstance(sight, str) else "the compute check did not run"
        return about.undecided(message, cause="ProbeDidNotRun")
    if (fault := fault_of(sight.computed, sight)) is not None:
        return faulty(about, fault)
    return about.undecided("no device was there to compute on")


def usual_figures(devices: Sequence[Device]) -> dict[tuple[str, str], float]:
    """The median of each figure of each product, where enough devices have it. ISO-05 finds those that do not compute."""
    rates: dict[tuple[str, str], list[float]] = {}
    for device in devices:
        for name in ("fp32", "memory"):  # copies depend on where in the machine the device sits
            if device.computes and (rate := getattr(device.figures, name)):
                rates.setdefault((device.name, name), []).append(rate)
    return {key: median(values) for key, values in rates.items() if len(values) >= _PEERS}


def judge_figures(node: Node, device: Device, usual: Mapping[tuple[str, str], float], policy: Hardware) -> Finding:
    """One device: values that compare, and each figure at least the policy's part of the peak and of what is usual."""
    place = Subject("Node", cut(f"{node.name} device {device.index} {device.uuid}".rstrip(), 300))
    about = About(place, SOURCE)
    if (failed := device.failed) is not None:
        if failed.wrong is not None:
            words = f"{failed.wrong.count} wrong values in {failed.compared} bytes ({failed.name})"
            message = f"{device.name} gives wrong values without any error: {words}"
            return about.bad(message, cause="DeviceComputesWrong", observed=words, expected=COMPUTES)
        message = f"{device.name} does not compute, so it has no figures: {failed.name} {failed.status}: {failed.trouble or ''}"
        return about.undecided(cut(message, 300), cause="DeviceDoesNotCompute")
    peak = peak_of(device.name)
    if peak is None:
        return about.not_judged(f"no figures of {device.name or 'a device without a name'} are known")
    figures, copies = device.figures, _copies(device.name)
    rates = {
        "FP32": (figures.fp32, peak.fp32 * 1e12, "fp32"),
        "memory": (figures.memory, peak.memory * 1e9, "memory"),
        "copies to the device": (figures.to_device, copies, "copies"),
        "copies from the device": (figures.from_device, copies, "copies"),
    }
    low, seen = [], []
    for words, (rate, most, name) in rates.items():
        if rate is None:
            return about.undecided(f"{device.name}: the figure of {words} was not measured")
        seen.append(f"{words} {_shown(rate)}")
        if rate < (least := getattr(policy, f"least_{name}") * most):
            low.append(f"{words} reaches {_shown(rate)}, and the product at least {_shown(least)}")
        elif (peers := usual.get((device.name, name), 0.0)) and rate < (1 - policy.below_peers) * peers:
            low.append(f"{words} reaches {_shown(rate)}, and its peers {_shown(peers)}")
    expected = f"at least the policy's part of the peak of {device.name} ({peak.date}), and of what its peers reach"
    observed = f"{listed(seen, 4)}; {figures.repetitions} repetitions compared"
    if low:
        message = f"{device.name} is slower than it must be: {listed(low, 4)}"
        return about.bad(message, cause="DeviceSlow", observed=observed, expected=expected)
    return about.ok(observed, expected=expected)


def _shown(rate: float) -> str:
    return f"{rate / 1e12:.3g} T/s" if rate >= 1e12 else f"{rate / 1e9:.3g} G/s"
