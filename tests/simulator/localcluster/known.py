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
    """``known.yaml``: defects by name, and differences."""

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
    return f"{HEAD}\n{chr(10).join([ABSENT_HEAD, *absent])}\n\n{chr(10).join([KNOWN_HEAD, *known])}\n"


HEAD = """# Where verdicts on real Kubernetes differ from the embedded cluster's

`make matrix-local` judges every healthy scenario and every defect twice, with the whole suite: on the embedded cluster, and on real
etcd, kube-apiserver, kube-controller-manager and kube-scheduler with the same simulated nodes (`--local`). It compares the verdicts of
each requirement and fails on a difference that is not on this page. It prints one line for each run, then how many rows and verdicts
were compared and how many were equal, and writes `out/local-matrix.json`. To save time, defects of one scenario share a run if they turn
different requirements red and the embedded cluster shows that none hides another. `ARGS=--single` gives each defect its own run,
`ARGS="--only NAME"` picks some, `LOCAL=1.36` or `LOCAL=1.35` takes an older minor.

Real controllers would repair many defects, so these are applied where the controllers keep them
(`fixtures/localcluster/seed/derived.py`). If a defect changes pods, the template of their controller changes too. A Pod Security level
that the pods violate is enforced once they exist. A template that admission refuses is changed after its pods were created. Defects of
scheduler and admission go into the configuration of the real programs (`fixtures/localcluster/control_plane/faults.py`): a profile
without a plugin, an exemption, a plugin turned off, a right taken away. This page is generated from
`tests/simulator/localcluster/known.yaml`, and a test keeps it up to date.
"""
ABSENT_HEAD = """## Defects that cannot exist on the real control plane

| defect | turns red | why it cannot exist | what shows that the requirement works there too |
|---|---|---|---|"""
KNOWN_HEAD = """## Verdicts that differ

| row | requirement | embedded | real | why | why it hides no wrong verdict |
|---|---|---|---|---|---|"""
