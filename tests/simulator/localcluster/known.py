"""Known differences between verdicts on real Kubernetes and on the embedded cluster, and why none hides a wrong verdict."""

from collections.abc import Sequence

import msgspec

from fixtures.simulator.config.scenario import load_defect

NO_GANG_SCHEDULER = "the embedded cluster of this scenario has no gang scheduler; the real kube-scheduler is one (`scheduling.k8s.io`)"


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


_OTHER_RIGHTS = "the suite's account has the rights of `deploy/` here; `tests/simulator/localcluster/rights` takes them away one by one"
_RIGHTS_PROOF = "there the real API server's RBAC makes INV-03 inconclusive, and every requirement that needs the right"
_RELEASED = "the resource claim controller takes back, within a moment, what is reserved for a pod that is not there"
_RESERVED = "DRA-07 passes there on claims that the real controller made, and that it released with their pods"

CANNOT_EXIST: dict[str, Absent] = {
    "req-api-accepts-malformed": Absent(
        why="the API server's validation is compiled in: no configuration turns it off",
        shown_by="REQ-01 passes only with the real server's 422, and `make fidelity` compares thousands of its answers",
    ),
    "dra-admin-access-everywhere": Absent(
        why="the API server's check of admin access is compiled in, and its feature gate is locked",
        shown_by="DRA-08 passes only with the real server's refusal; `dra-tenant-labelled-for-admin-access` is red on both",
    ),
    "dra-selector-does-not-compile": Absent(
        why="the API server compiles each selector that is written; only one from before an upgrade or a downgrade can be there",
        shown_by="DRA-01 is red on both for `dra-class-of-policy-missing`",
    ),
    "dra-scheduler-repeats-a-device": Absent(
        why="the scheduler's account of allocated devices is compiled in, and only one scheduler runs there",
        shown_by="DRA-06 passes there only with two allocations of the real scheduler that differ",
    ),
    "dra-selector-ignored": Absent(
        why="the scheduler's evaluation of selectors is compiled in",
        shown_by="DRA-06 passes there only if the real scheduler refuses a claim that differs in its selector alone from one that ran",
    ),
    "share-claims-beyond-shares": Absent(
        why="the scheduler's account of consumed capacity is compiled in",
        shown_by="SHARE-03 passes there only if the real scheduler refuses the claim beyond the last share",
    ),
    "dra-claim-of-a-gone-pod": Absent(why=_RELEASED, shown_by=_RESERVED),
    "dra-claim-released-late": Absent(
        why="the controller manager is real, and no configuration makes its claims late",
        shown_by="DRA-05 passes there only when the real controller releases the device of an ended pod",
    ),
    "dra-reserved-for-an-earlier-pod": Absent(why=_RELEASED, shown_by=_RESERVED),
    "dra-extended-pod-without-claim": Absent(
        why="the API server keeps the claim of extended resources that a pod's status once named",
        shown_by="DRA-10 is red on both for `dra-extended-class-without-devices`",
    ),
    "dra-extended-claim-too-small": Absent(
        why="the pods of a StatefulSet are alike, and real controllers make them so",
        shown_by="DRA-10 is red on both for `dra-extended-class-without-devices`",
    ),
    "inv-may-not-create-namespaces": Absent(why=_OTHER_RIGHTS, shown_by=_RIGHTS_PROOF),
    "inv-may-not-list-pods": Absent(why=_OTHER_RIGHTS, shown_by=_RIGHTS_PROOF),
}

KNOWN: tuple[Known, ...] = (
    Known(
        requirements=("GANG-02", "GANG-03", "GANG-04"),
        embedded="not_applicable",
        real="passed",
        why=NO_GANG_SCHEDULER,
        hides_nothing="the real cluster is judged more, not less, with gangs that it binds or leaves waiting",
    ),
    Known(
        requirements=("GANG-01",),
        embedded="failed",
        real="not_applicable",
        why=NO_GANG_SCHEDULER,
        hides_nothing="the defect is a missing gang scheduler; the real cluster has one, which GANG-02 to GANG-04 ask and find working",
        rows=("gang-scheduler-missing",),
    ),
    Known(
        requirements=("GANG-05",),
        embedded="failed",
        real="passed",
        why="the real API server sets creation times itself: in a cluster that is a minute old, no pod has waited for two hours",
        hides_nothing="the same real pods fail under a policy that allows no waiting (`gang.partialMinutes: 0`); a test does that",
        rows=("gang-job-half-placed", "gang-group-smaller-than-its-job", "gang-ray-head-waits"),
    ),
    Known(
        requirements=("GANG-10", "GANG-11"),
        embedded="failed",
        real="inconclusive",
        why="the real API server sets creation times itself: in a cluster that is a minute old, no work has waited for hours",
        hides_nothing="the verdict names the same object and says when to ask again; `gang-workload-goes-round` is red on both",
        rows=(
            "gang-admission-check-inactive",
            "gang-podgroup-without-pods",
            "gang-queue-names-no-flavor",
            "gang-queues-drained",
            "gang-volcano-queue-closed",
        ),
    ),
    Known(
        requirements=("DRA-09",),
        embedded="warned",
        real="inconclusive",
        why="the real API server sets creation times itself: a ComputeDomain that is seconds old may still come together",
        hides_nothing="the verdict names the same domain and what is wrong with it, and says when to ask again",
        rows=("dra-compute-domain-member-lost", "dra-compute-domain-not-ready", "dra-compute-domain-of-two-cliques"),
    ),
    Known(
        requirements=("DRA-11",),
        embedded="failed",
        real="inconclusive",
        why="the real API server sets creation times itself: a driver may be publishing anew for a claim that is seconds old",
        hides_nothing="the verdict names the same device and its claim, and says when to ask; `dra-device-given-twice` is red on both",
        rows=("dra-claim-of-a-lost-device",),
    ),
    Known(
        requirements=("DRA-04",),
        embedded="passed",
        real="failed",
        why="every hold is too old there (`nodes.heldHours: 0`), because all nodes are new: so is this taint of two hours",
        hides_nothing="the verdict names the same taint and its age, and `dra-taint-stale` is red on both",
        rows=("adv-claimed-device-tainted",),
    ),
    Known(
        requirements=("REQ-14",),
        embedded="failed",
        real="passed",
        why="the real API server sets times of deletion itself, so that no pod there is being deleted for days",
        hides_nothing="the pod is not deleted there at all, and `req-crash-loop-holds-device` turns the requirement red on both",
        rows=("req-pod-terminating-for-days",),
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
`tests/simulator/localcluster/known.py`, and a test keeps it up to date.
"""
ABSENT_HEAD = """## Defects that cannot exist on the real control plane

| defect | turns red | why it cannot exist | what shows that the requirement works there too |
|---|---|---|---|"""
KNOWN_HEAD = """## Verdicts that differ

| row | requirement | embedded | real | why | why it hides no wrong verdict |
|---|---|---|---|---|---|"""
