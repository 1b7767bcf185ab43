"""Defects of one scenario that can be judged in one run without hiding each other: a control plane for every handful of them."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

import msgspec

from fixtures.simulator.config.scenario import Defect, ObjectRef, load_defect, scenario_names
from fixtures.verdict.findings import COMPARISON

MAX_DEFECTS = 8


class Pack(msgspec.Struct, frozen=True, kw_only=True):
    """A healthy scenario (no defects), or some defects of it."""

    scenario: str
    defects: tuple[str, ...] = ()

    @property
    def spec(self) -> str:
        """``--simulate`` of it."""
        return ",".join((self.scenario, *self.defects))

    @property
    def trips(self) -> set[str]:
        """What has to be red: each of it because of one defect. A row has no earlier run, so that UPG-05 cannot be."""
        return {id_ for name in self.defects for id_ in load_defect(name).trips} - {COMPARISON}

    @property
    def names(self) -> tuple[str, ...]:
        """The scenario or the defects."""
        return self.defects or (self.scenario,)

    @property
    def halves(self) -> "tuple[Pack, Pack]":
        """The first and the second half of its defects."""
        middle = len(self.defects) // 2
        first, second = (msgspec.structs.replace(self, defects=part) for part in (self.defects[:middle], self.defects[middle:]))
        return first, second


def single(name: str) -> Pack:
    """One scenario or one defect."""
    return Pack(scenario=name) if name in scenario_names() else Pack(scenario=load_defect(name).scenario, defects=(name,))


def packed(names: Iterable[str]) -> list[Pack]:
    """Scenarios one by one, defects together with others of their scenario that turn other requirements red and touch other things."""
    packs: list[Pack] = []
    open_packs: list[list[Defect]] = []
    for name in names:
        if name in scenario_names():
            packs.append(single(name))
            continue
        defect = load_defect(name)
        into = next((pack for pack in open_packs if _fits(defect, pack)), None)
        if into is None:
            open_packs.append(into := [])
        into.append(defect)
    return packs + [Pack(scenario=pack[0].scenario, defects=tuple(one.name for one in pack)) for pack in open_packs]


def _fits(defect: Defect, pack: Sequence[Defect]) -> bool:
    return len(pack) < MAX_DEFECTS and all(defect.scenario == one.scenario and _apart(defect, one) for one in pack)


def _apart(one: Defect, other: Defect) -> bool:
    if _loads_fabric(one) and _loads_fabric(other):
        return False
    if set(one.trips) & set(other.trips) or one.behaviour.keys() & other.behaviour.keys() or one.policy.keys() & other.policy.keys():
        return False
    if (_changes(one, "taints") and _changes(other, "tolerations")) or (_changes(one, "tolerations") and _changes(other, "taints")):
        return False  # real controllers place their pods by both
    return not any(_same(mine.target, theirs.target) for mine in one.changes for theirs in other.changes)


def _changes(defect: Defect, field: str) -> bool:
    return any(f'"{field}"' in text or f"/{field}" in text for change in defect.changes for text in [msgspec.json.encode(change).decode()])


def _loads_fabric(defect: Defect) -> bool:
    """Whether it shows in the one run over the fabric of two nodes, which two such defects would share."""
    one_per_node = any(change.target.kind == "Node" for change in defect.changes)
    return any(id_.startswith("NET-") for id_ in defect.trips) and (bool(defect.behaviour) or one_per_node)


def _same(one: ObjectRef, other: ObjectRef) -> bool:
    """Whether both may mean the same object."""
    return (
        one.kind == other.kind
        and _overlap(one.name, other.name)
        and (not one.namespace or not other.namespace or _overlap(one.namespace, other.namespace))
    )


def _overlap(one: str, other: str) -> bool:
    return fnmatchcase(one, other) or fnmatchcase(other, one)
