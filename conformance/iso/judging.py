"""What is made of what containers saw: pure functions from output to findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance.iso.asking import Ran
from conformance.iso.sight import Sight, read_sight
from conformance.outputs.unreadable import Unreadable
from fixtures.evidence import Finding, Subject, bad, ok, undecided

SOURCE = "nvidia-smi -L and /dev in the container"


def sight_of(ran: Ran, container: str = "probe") -> Sight | str:
    """What a container saw, or why that is not known."""
    if ran.trouble:
        return f"the probe pod gave no answer: {ran.trouble}"
    try:
        return read_sight(ran.logs.get(container, ""))
    except Unreadable as error:
        return f"the probe's output could not be read: {error}"


def judge_holder(ran: Ran, asked: int, resource: str) -> Finding:
    """ISO-01, first half: the container that asked for ``asked`` devices sees exactly so many."""
    subject = ran.container("probe")
    sight = sight_of(ran)
    if isinstance(sight, str):
        return undecided(subject, sight, SOURCE)
    expected = f"exactly {asked} device{'s' if asked > 1 else ''} of {resource}"
    observed = f"{sight.text} on node {ran.node}"
    seen = len(set(sight.uuids))
    if not sight.uuids and (sight.failures or sight.exit_code):
        return undecided(subject, f"nvidia-smi does not work in the pod, so its devices cannot be counted: {observed}", SOURCE)
    if seen != asked or seen != len(sight.uuids):
        more = "devices of others are open to it" if seen > asked else "it was given less than it pays for"
        return bad(subject, observed, expected, SOURCE, f"it asked for {asked} of {resource} and sees {seen}: {more}")
    return ok(subject, observed, expected, SOURCE)


def judge_blind(ran: Ran, container: str, subject: Subject, how: str) -> Finding:
    """A container that asked for nothing sees nothing. ``how`` says what could have let it in, as a clause."""
    sight = sight_of(ran, container)
    if isinstance(sight, str):
        return undecided(subject, sight, SOURCE)
    observed, expected = f"{sight.text} on node {ran.node}", "no device and no device file"
    if sight.blind:
        return ok(subject, observed, expected, SOURCE)
    what = f"{len(sight.uuids)} device(s)" if sight.uuids else f"/dev/{sight.device_files[0]}"
    return bad(subject, observed, expected, SOURCE, f"it asked for no device and reaches {what} {how}, past the device plugin's accounting")


def judge_disjoint(ran: Mapping[str, Ran], resource: str) -> Iterator[Finding]:
    """ISO-03: pods that ran together, each asking one exclusive device, hold devices that no other holds."""
    sights = {name: sight_of(pod) for name, pod in ran.items()}
    holders: dict[str, list[str]] = {}
    for name, sight in sights.items():
        for uuid in set(sight.uuids) if isinstance(sight, Sight) else ():
            holders.setdefault(uuid, []).append(name)
    for name, sight in sights.items():
        subject = ran[name].subject
        if isinstance(sight, str):
            yield undecided(subject, sight, SOURCE)
            continue
        if not sight.uuids:
            yield undecided(subject, f"it holds one {resource} and lists none, so there is nothing to compare: {sight.text}", SOURCE)
            continue
        doubled = {uuid: _others(holders[uuid], name) for uuid in sight.uuids if len(holders[uuid]) > 1}
        observed, expected = f"{sight.text} on node {ran[name].node}", "a device that no other pod of the node holds"
        if doubled:
            uuid, others = next(iter(doubled.items()))
            message = f"{uuid} is also held by {', '.join(others)}, so an exclusive {resource} is shared and jobs starve each other"
            yield bad(subject, observed, expected, SOURCE, message)
        elif len(sights) < 2:
            yield undecided(subject, "it ran alone, so there was nothing to compare", SOURCE)
        else:
            yield ok(subject, observed, expected, SOURCE)


def _others(names: Sequence[str], name: str) -> list[str]:
    return [other for other in names if other != name]
