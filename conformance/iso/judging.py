"""Findings from what containers saw of devices (ISO-01 to 03). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.probes.running import ProbeResult
from conformance.probes.visible_devices import SOURCE, VisibleDevices, visible_to
from fixtures.verdict.findings import Finding, Subject, bad, ok, undecided


def judge_holder(ran: ProbeResult, asked: int, resource: str) -> Finding:
    """ISO-01, first half: the container that asked for ``asked`` devices sees exactly so many."""
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
    return ok(subject, observed=observed, expected=expected, source=SOURCE)


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


def _others(names: Sequence[str], name: str) -> list[str]:
    return [other for other in names if other != name]
