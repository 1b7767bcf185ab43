"""Findings from what containers saw of devices (ISO-01 to 03). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.probes.computing import (
    COMPUTES,
    NO_LIBRARY,
    SOURCE,
    VisibleDevices,
    computing,
    fault_of,
    faulty,
    has_library,
    sample_fault,
    visible_to,
    words_of,
)
from conformance.probes.running import ProbeResult
from fixtures.verdict.findings import Finding, bad, not_judged, ok, undecided
from fixtures.verdict.subjects import Subject


def judge_holder(ran: ProbeResult, asked: int, resource: str, *, shared: bool = False) -> Finding:
    """ISO-01, first half: the container that asked for ``asked`` devices sees exactly so many, and they compute."""
    subject = ran.container("probe")
    sight = visible_to(ran)
    if isinstance(sight, str):
        return undecided(subject, cause="ProbeDidNotRun", message=sight, source=SOURCE)
    expected = f"exactly {asked} device{'s' if asked > 1 else ''} of {resource}"
    observed = f"{sight.text} on node {ran.node}"
    seen = len(set(sight.uuids))
    if not sight.uuids and (sight.failures or sight.exit_code):
        return undecided(
            subject,
            message=f"nvidia-smi does not work in the pod, so its devices cannot be counted: {observed}",
            source=SOURCE,
        )
    if seen != asked or seen != len(sight.uuids):
        more = "devices of others are open to it" if seen > asked else "it was given less than it pays for"
        return bad(
            subject,
            observed=observed,
            expected=expected,
            source=SOURCE,
            cause="DevicesOpenToOthers" if seen > asked else "FewerDevicesThanAsked",
            message=f"it asked for {asked} of {resource} and sees {seen}: {more}",
        )
    return computing(ok(subject, observed=observed, expected=expected, source=SOURCE), sight, shared=shared)


def judge_unasked(ran: ProbeResult, container: str, subject: Subject, how: str, cause: str) -> Finding:
    """A container that asked for nothing sees nothing. ``how`` says what could have let it in, as a clause; ``cause`` is its code."""
    sight = visible_to(ran, container)
    if isinstance(sight, str):
        return undecided(subject, cause="ProbeDidNotRun", message=sight, source=SOURCE)
    observed, expected = f"{sight.text} on node {ran.node}", "no device and no device file"
    if sight.sees_nothing:
        return ok(subject, observed=observed, expected=expected, source=SOURCE)
    what = f"{len(sight.uuids)} device(s)" if sight.uuids else f"/dev/{sight.device_files[0]}"
    return bad(
        subject,
        observed=observed,
        expected=expected,
        source=SOURCE,
        cause=cause,
        message=f"it asked for no device and reaches {what} {how}, which the device plugin does not count",
    )


def judge_disjoint(ran: Mapping[str, ProbeResult], resource: str) -> Iterator[Finding]:
    """ISO-03: pods that ran together, each asking one exclusive device, hold devices that no other holds."""
    sights = {name: visible_to(pod) for name, pod in ran.items()}
    holders: dict[str, list[str]] = {}
    for name, sight in sights.items():
        for uuid in set(sight.uuids) if isinstance(sight, VisibleDevices) else ():
            holders.setdefault(uuid, []).append(name)
    for name, sight in sights.items():
        subject = ran[name].subject
        if isinstance(sight, str):
            yield undecided(subject, cause="ProbeDidNotRun", message=sight, source=SOURCE)
            continue
        if not sight.uuids:
            yield undecided(
                subject,
                message=f"it holds one {resource} and lists none, so there is nothing to compare: {sight.text}",
                source=SOURCE,
            )
            continue
        doubled = {uuid: _others(holders[uuid], name) for uuid in sight.uuids if len(holders[uuid]) > 1}
        observed, expected = f"{sight.text} on node {ran[name].node}", "a device that no other pod of the node holds"
        if doubled:
            uuid, others = next(iter(doubled.items()))
            message = f"{uuid} is also held by {', '.join(others)}, so an exclusive {resource} is shared and jobs starve each other"
            yield bad(subject, cause="DeviceGivenTwice", observed=observed, expected=expected, source=SOURCE, message=message)
        elif len(sights) < 2:
            yield undecided(subject, message="it ran alone, so there was nothing to compare", source=SOURCE)
        else:
            yield ok(subject, observed=observed, expected=expected, source=SOURCE)


def judge_computing(ran: ProbeResult, count: int, resource: str, *, shared: bool = False, mounted: bool = True) -> Finding:
    """ISO-05: every device that a pod was given computes, by the compute check.

    Unless the runtime has ``mounted`` the library, it comes with the image, as the check does: one without them shows nothing.
    """
    source = "gpu-conformance compute in the container"
    expected = f"{count} of {resource} given, and each {COMPUTES}"
    if not mounted and not ran.trouble and not has_library(ran):
        return not_judged(ran.subject, message=NO_LIBRARY, source=source)
    sight = visible_to(ran)
    if isinstance(sight, str) or sight.computed is None:
        message = sight if isinstance(sight, str) else "the compute check did not run"
        return undecided(ran.subject, cause="ProbeDidNotRun", message=message, source=source)
    if (fault := fault_of(sight.computed, sight, shared=shared)) is not None:
        return faulty(ran.subject, fault, expected, source)
    if (found := len(sight.computed.devices)) < count:
        message = f"it was given {count} of {resource}, and programs find {found} devices to compute on"
        observed = f"{words_of(sight.computed)}; {sight.text}"
        return bad(ran.subject, cause="DeviceDoesNotCompute", observed=observed, expected=expected, source=source, message=message)
    return ok(ran.subject, observed=f"{words_of(sight.computed)} on node {ran.node}", expected=expected, source=source)


def judge_sample(ran: ProbeResult, resource: str, *, shared: bool = False) -> Finding:
    """ISO-05 without an image of the suite: CUDA's sample adds two vectors on the device."""
    source, expected = "log of CUDA's sample vectorAdd", f"one {resource} given, which {COMPUTES}"
    if (fault := sample_fault(ran, shared=shared)) is not None:
        return faulty(ran.subject, fault, expected, source)
    return ok(ran.subject, observed=f"Test PASSED on node {ran.node}", expected=expected, source=source)


def _others(names: Sequence[str], name: str) -> list[str]:
    return [other for other in names if other != name]
