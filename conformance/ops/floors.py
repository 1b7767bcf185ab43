"""OPS-11: no part of the stack has a published escape or loss of data, by the versions that are installed."""

from collections.abc import Iterator

from fixtures.model.cluster import Scope
from fixtures.model.platform.versions import Installed, Version, installed, version_of
from fixtures.tables.rows import FLOORS
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import NotApplicable, Subject


def check_floors(scope: Scope) -> Iterator[Finding]:
    """One finding per part and place: a workload, or a node."""
    own = scope.policy.operators.version_floors
    judged = [one for one in installed(scope) if own.get(one.part) or any(row.part == one.part for row in FLOORS.rows)]
    if not judged:
        raise NotApplicable("NoKnownPart", "no part is installed of which a floor is known")
    for one in judged:
        yield _judge(one, own.get(one.part, ""))


def _judge(one: Installed, own: str) -> Finding:
    """``own`` is the floor of the policy, which stands beside the published faults."""
    source = f"tags of images, status.nodeInfo, tables of {FLOORS.table.date}"
    place = Subject(one.place.kind, f"{one.place.name} {one.part}", one.place.namespace)
    known = [row for row in FLOORS.rows if row.part == one.part]
    floors = [*(row.fixed[-1] for row in known), *([own] if own else [])]
    expected = f"{one.part} {' and '.join(floors)} or newer"
    about = About(place, source, expected, observed=f"{one.part} {one.text or 'of no version'}")
    if one.version is None:
        return about.undecided(f"its version is not known: the tag is {one.text or 'empty'}")
    for row in known:
        if _below(one.version, [version for text in row.fixed if (version := version_of(text))]):
            message = f"{one.part} {one.text} has a known fault ({row.fault}; fixed in {', '.join(row.fixed)})"
            return about.bad(message, cause="KnownFault")
    floor = version_of(own)
    if floor and one.version < floor:
        return about.bad(f"{one.part} {one.text} is below the policy's operators.versionFloors: {own}", cause="BelowFloor")
    return about.ok()


def _below(version: Version, fixed: list[Version]) -> bool:
    """Whether a version is of a branch without a fix, or below its branch's: ``1.5.9`` and ``1.3.0`` for fixes in 1.5.10 and 1.6.1."""
    branch = next((one for one in fixed if one[:-1] == version[: len(one) - 1]), max(fixed))
    return version < branch
