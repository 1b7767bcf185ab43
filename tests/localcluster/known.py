"""What real Kubernetes cannot have, and what it decides otherwise than the embedded cluster: each with why no wrong verdict hides in it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fixtures.simulator.scenario import load_defect

NO_GANG_SCHEDULER = "the embedded cluster of this scenario has no gang scheduler, kube-scheduler is one (`scheduling.k8s.io`)"


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """A defect that no real cluster of this kind has, the requirements it would turn red, and what shows that they see the real thing."""

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


_OTHER_RIGHTS = "the suite's account has the rights of `deploy/` here; `tests/localcluster/rights` takes them away one by one"
_RIGHTS_PROOF = "there INV-03 and what needs the right turn inconclusive, by the real API server's RBAC"

CANNOT_EXIST: dict[str, Absent] = {
    "req-api-accepts-malformed": Absent(
        why="the API server's validation is compiled in: no configuration turns it off",
        shown_by="REQ-01 passes only with the real server's 422, and `make fidelity` compares thousands of its answers",
    ),
    "inv-may-not-create-namespaces": Absent(why=_OTHER_RIGHTS, shown_by=_RIGHTS_PROOF),
    "inv-may-not-list-pods": Absent(why=_OTHER_RIGHTS, shown_by=_RIGHTS_PROOF),
}

KNOWN: tuple[Known, ...] = (
    Known(
        requirements=("GANG-01", "GANG-02", "GANG-03", "GANG-04"),
        embedded="not_applicable",
        real="passed",
        why=NO_GANG_SCHEDULER,
        hides_nothing="the real one is judged more, not less: with gangs of pods that it binds or leaves waiting",
    ),
    Known(
        requirements=("GANG-01",),
        embedded="failed",
        real="passed",
        why=NO_GANG_SCHEDULER,
        hides_nothing="the defect is that none is there; where one is, passing is right",
        rows=("gang-scheduler-missing",),
    ),
    Known(
        requirements=("GANG-05",),
        embedded="failed",
        real="passed",
        why="the API server dates objects itself: in a cluster of a minute no pod has waited for two hours",
        hides_nothing="the same real pods fail under a policy that allows no waiting (`gang.partialMinutes: 0`); a test does that",
        rows=("gang-job-half-placed",),
    ),
)


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
etcd, kube-apiserver, kube-controller-manager and kube-scheduler with the same simulated nodes (`--local`). It compares the verdict of
each requirement, prints a line for each run and how many rows and verdicts were compared and equal, writes `out/local-matrix.json`,
and fails on a difference that is not on this page. Defects of one scenario that turn different requirements red share a run when the
embedded cluster shows that none hides another; `ARGS=--single` gives each its own, `ARGS="--only NAME"` picks some, `LOCAL=1.35`
takes the minor before.

Defects are given to real controllers so that they keep them (`fixtures/localcluster/derived.py`): where a defect changes pods, the
template of their controller changes too; a level that its pods violate is enforced once they are there; a template that admission
refuses is changed after its pods were made. Defects of scheduler and admission are configured into the real ones
(`fixtures/localcluster/faults.py`): a profile without a plugin, an exemption, a plugin turned off, a right taken away. The page is
written from `tests/localcluster/known.py`; a test keeps it in step.
"""
ABSENT_HEAD = """## Defects that no real cluster here can have

| defect | turns red | why it cannot be | what shows that the requirement sees the real thing |
|---|---|---|---|"""
KNOWN_HEAD = """## Verdicts that differ, and why that hides nothing

| row | requirement | embedded | real | why | why it hides no wrong verdict |
|---|---|---|---|---|---|"""
