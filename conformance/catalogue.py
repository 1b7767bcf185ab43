"""All requirements: the ``catalogue.yaml`` of every area folder, checked when it is read."""

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import yaml

from conformance.requirement import Requirement
from fixtures.cluster.kinds import BARE_KEYS, WORKLOAD_KEYS
from fixtures.model.platform.namespaces import READS
from fixtures.text import yaml_text
from fixtures.text.sentences import listed

FOLDER = Path(__file__).parent
_GROUPS = yaml_text.packaged(FOLDER / "catalogue_groups.yaml", dict[str, dict[str, list[str]]])

READ_GROUPS: Mapping[str, Sequence[str]] = {
    # Kinds with a pod template, and what tells which custom kinds may hold one. Live pods are not among them: a requirement names
    # `pods` where it judges those too.
    "templates": (*WORKLOAD_KEYS, "apiextensions.k8s.io/customresourcedefinitions"),
    # Further kinds with a pod template, for `hints`: nearly all of their objects are made from workloads, which are judged themselves.
    "bare-templates": BARE_KEYS,
    **_GROUPS["reads"],
}
"""Groups for ``reads``, ``optional_reads`` and ``hints``: resource keys by group."""

WRITE_GROUPS: Mapping[str, Sequence[str]] = _GROUPS["writes"]
"""Groups for ``writes``: rights by group."""


class CatalogueError(Exception):
    """A catalogue file is malformed. One line naming file and entry."""


class Area(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One area: its id prefix, its title, its requirements in order."""

    area: str
    title: str
    requirements: list[Requirement]


class Catalogue:
    """Requirements by id, in the order of areas and of files."""

    def __init__(self, areas: list[Area]) -> None:
        self.areas = areas
        self.by_id = {requirement.id: requirement for area in areas for requirement in area.requirements}

    def get(self, id_: str) -> Requirement:
        """The requirement of an id. Raises :class:`CatalogueError` naming the nearest known id."""
        found = self.by_id.get(id_)
        if found is None:
            near = _nearest(id_, self.by_id, 0.5)
            raise CatalogueError(f"unknown requirement {id_!r}" + (f"; {near}" if near else ""))
        return found

    def check_area(self, name: str) -> None:
        """Raise :class:`CatalogueError`, naming the nearest area, if a name is no area's. Areas are in upper case."""
        areas = [area.area for area in self.areas]
        if name not in areas:
            raise CatalogueError(f"unknown area {name!r}; {_nearest(name, areas, 0.4) or f'areas: {listed(areas, 99)}'}")

    def choose(self, name: str) -> list[str]:
        """The ids that an id or an area names, in either case. Raises :class:`CatalogueError` naming the nearest known name."""
        wanted, areas = name.upper(), [area.area for area in self.areas]
        found = [id_ for id_, one in self.by_id.items() if wanted in (id_, one.area)]
        if not found:
            near = _nearest(name, [*(() if "-" in wanted else areas), *self.by_id], 0.5)
            raise CatalogueError(f"unknown requirement or area {name!r}; {near or f'areas: {listed(areas, 99)}'}")
        return found


def _nearest(name: str, names: Iterable[str], cutoff: float) -> str:
    near = difflib.get_close_matches(name.upper(), list(names), n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else ""


ORDER = ("INV", "FENCE", "REQ", "PSA", "ISO", "OPS", "ADV", "MIG", "SHARE", "GANG", "DRA", "NET", "OBS", "HW", "UPG", "SCALE", "PLAT")


@functools.cache  # files of the package
def load_catalogue(folder: Path = FOLDER) -> Catalogue:
    """Read every ``*/catalogue.yaml`` below ``folder``. Raises :class:`CatalogueError`."""
    areas = [_load(path) for path in sorted(folder.glob("*/catalogue.yaml"))]
    areas.sort(key=lambda area: (ORDER.index(area.area) if area.area in ORDER else len(ORDER), area.area))
    ids = [requirement.id for area in areas for requirement in area.requirements]
    if doubled := {id_ for id_ in ids if ids.count(id_) > 1}:
        raise CatalogueError(f"catalogue: {', '.join(sorted(doubled))} stated twice")
    return Catalogue(areas)


def _load(path: Path) -> Area:
    where = f"{path.parent.name}/{path.name}"
    try:
        area = yaml_text.packaged(path, Area)
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CatalogueError(f"{where}: {error}") from error
    requirements = [_with_groups(requirement) for requirement in area.requirements]
    for requirement in requirements:
        problems = requirement.problems()
        if requirement.area != area.area:
            problems.append(f"it belongs to another area than {area.area}")
        if problems:
            raise CatalogueError(f"{where}: {requirement.id}: {problems[0]}")
    return msgspec.structs.replace(area, requirements=[_with_proofs(requirement) for requirement in requirements])


def _with_groups(requirement: Requirement) -> Requirement:
    """The requirement with its groups replaced by what they stand for. What is named twice is there once, at its first place."""

    def expanded(entries: Iterable[str], groups: Mapping[str, Sequence[str]]) -> list[str]:
        return list(dict.fromkeys(entry for name in entries for entry in groups.get(name, (name,))))

    reads = {field: expanded(getattr(requirement, field), READ_GROUPS) for field in ("reads", "optional_reads", "hints", "adds")}
    return msgspec.structs.replace(requirement, **reads, writes=expanded(requirement.writes, WRITE_GROUPS))


def _with_proofs(requirement: Requirement) -> Requirement:
    """The requirement with what it reads to tell the platform's namespaces from tenants'."""
    proofs = [key for key in READS if requirement.tells_tenants and key not in (*requirement.reads, *requirement.optional_reads)]
    return msgspec.structs.replace(requirement, optional_reads=[*requirement.optional_reads, *proofs], tenant_proofs=proofs)
