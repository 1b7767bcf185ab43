"""Known differences between verdicts on real Kubernetes and on the embedded cluster, and why none hides a wrong verdict."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from fixtures.simulator.config.scenario import load_defect


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """A defect that cannot exist on the real control plane, and what shows that its requirements work there too."""

    why: str
    shown_by: str


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts that differ. ``rows`` names scenarios and defects; empty is every one."""

    requirements: tuple[str, ...]
    embedded: str
    real: str
    why: str
    hides_nothing: str
    rows: tuple[str, ...] = ()

    def explains(self, names: Sequence[str], requirement: str, embedded: str, real: str) -> bool:
        """Whether this is the difference."""
        return (
            requirement in self.requirements
            and (embedded, real) == (self.embedded, self.real)
            and (not self.rows or not set(self.rows).isdisjoint(names))
        )


class Page(msgspec.Struct, frozen=True):
    """``known.yaml``: what the page says before its tables, defects by name, and differences."""

    head: str
    absent_head: str
    known_head: str
    absent: dict[str, Absent]
    known: list[Known]


_PAGE = msgspec.convert(yaml.load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader), Page)
CANNOT_EXIST, KNOWN = _PAGE.absent, _PAGE.known


def cannot_exist(names: Sequence[str]) -> str:
    """Why there is no real cluster with one of these defects; empty when there can be one."""
    return next((CANNOT_EXIST[name].why for name in names if name in CANNOT_EXIST), "")


def reason_of(names: Sequence[str], requirement: str, embedded: str, real: str) -> str:
    """Why a verdict of a scenario or some defects differs; empty when nobody knows."""
    return next((known.why for known in KNOWN if known.explains(names, requirement, embedded, real)), "")


def page() -> str:
    """``docs/fidelity-verdicts.md``."""
    absent = [
        f"| `{name}` | {', '.join(load_defect(name).trips)} | {one.why} | {one.shown_by} |" for name, one in sorted(CANNOT_EXIST.items())
    ]
    known = [
        f"| {', '.join(f'`{row}`' for row in one.rows) or 'any'} | {', '.join(one.requirements)} | {one.embedded.replace('_', ' ')} "
        f"| {one.real} | {one.why} | {one.hides_nothing} |"
        for one in KNOWN
    ]
    return f"{_PAGE.head}\n\n{chr(10).join([_PAGE.absent_head, *absent])}\n\n{chr(10).join([_PAGE.known_head, *known])}\n"
