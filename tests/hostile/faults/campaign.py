"""Seeded runs of the suite through the fault proxy, each held against the same run without faults.

A fault may cost a verdict, never turn one: what is passed without faults is passed or inconclusive with them, what is failed is
failed or inconclusive. Whatever of a run is in the cluster after it has to be in its report.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import discover
from fixtures.cluster.kinds import KINDS
from fixtures.ownership import owned
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.verdict.record import Level, Report, Verdict
from tests.endtoend.runs import Finished, run_suite
from tests.hostile.faults import small_bodies
from tests.hostile.faults.plans import Ordeal
from tests.hostile.faults.proxy import FaultProxy, through
from tests.hostile.faults.requests import Asked

POLICY = "probes: {windowSeconds: 1, startSeconds: 20}\n"
USAGE, CRASHED, INCONCLUSIVE, RESIDUE = 4, 3, 10, 11
ENDLESS = -999
_SAME = {
    Verdict.PASSED: {Verdict.PASSED, Verdict.INCONCLUSIVE},
    Verdict.FAILED: {Verdict.FAILED, Verdict.INCONCLUSIVE},
    Verdict.WARNED: {Verdict.WARNED, Verdict.INCONCLUSIVE},
    Verdict.WAIVED: {Verdict.WAIVED, Verdict.INCONCLUSIVE},
    Verdict.NOT_APPLICABLE: {Verdict.NOT_APPLICABLE, Verdict.INCONCLUSIVE},
    Verdict.INCONCLUSIVE: {Verdict.INCONCLUSIVE},
}


class Outcome(msgspec.Struct, kw_only=True):
    """What became of one run: what is wrong with it, and what it cost."""

    seed: int
    simulate: str
    faults: list[str]
    exit_code: int
    befell: int = 0
    changed: int = 0
    seconds: float = 0.0
    requests: int = 0
    asked: list[Asked] = []
    wrong: list[str] = []

    def met(self, proxy: FaultProxy) -> None:
        """Write down what befell the run, and what it asked."""
        self.faults = [str(fault) for fault in proxy.faults]
        self.befell = sum(fault.befell for fault in proxy.faults)
        self.requests, self.asked = proxy.requests, sorted(proxy.asked)


def usual(simulate: str, folder: Path) -> Report:
    """The record of the run without faults, on a cluster that is served as a live one."""
    with EmbeddedCluster.start(simulate, _made(folder / "cluster")) as cluster:
        done = _judged(folder, cluster.kubeconfig)
    if done.report is None or done.code not in (0, 1, INCONCLUSIVE):
        raise RuntimeError(f"{simulate} without faults: exit {done.code}\n{done.output[-2000:]}")
    return done.report


def suffered(ordeal: Ordeal, expected: Report, folder: Path) -> Outcome:
    """The run of an ordeal, held against the one without faults."""
    with EmbeddedCluster.start(ordeal.simulate, _made(folder / "cluster")) as cluster:
        with through(cluster.kubeconfig, folder / "proxied", ordeal.faults) as proxy:
            try:
                done = _judged(folder, folder / "proxied")
            except TimeoutError as error:
                done = Finished(code=ENDLESS, output=str(error), report=None)
        left = left_behind(Cluster.from_kubeconfig(cluster.kubeconfig))
    outcome = Outcome(seed=ordeal.seed, simulate=ordeal.simulate, faults=[], exit_code=done.code)
    outcome.met(proxy)
    outcome.wrong = list(wrong(done, expected, left))
    if done.report is not None:
        before = _verdicts(expected)
        outcome.changed = sum(verdict is not before.get(id_) for id_, verdict in _verdicts(done.report).items())
    return outcome


def wrong(done: Finished, expected: Report, left: list[str]) -> Iterator[str]:
    """Each thing that a run may not do, whatever it meets."""
    if "Traceback (most recent call last)" in done.output or "INTERNALERROR" in done.output:
        yield f"crash: {done.output[-1500:]}"
    if done.code in (CRASHED, -1) or done.code < 0:
        yield f"crash: exit code {done.code}: {done.output[-600:]}"
    report = done.report
    if report is None:
        if done.code not in (USAGE, INCONCLUSIVE):
            yield f"no report, and exit code {done.code}: {done.output[-600:]}"
        if left:
            yield f"unreported residue: {', '.join(left)}"
        return
    before = _verdicts(expected)
    for result in report.results:
        allowed = _SAME.get(before.get(result.id, Verdict.INCONCLUSIVE), {Verdict.INCONCLUSIVE})
        if result.verdict not in allowed:
            was = before.get(result.id)
            yield f"wrong verdict: {result.id} {was} became {result.verdict} ({result.reason_code}: {result.message[:300]})"
    missing = before.keys() - {result.id for result in report.results}
    if missing and done.code not in (USAGE, INCONCLUSIVE, RESIDUE):
        yield f"wrong verdict: {', '.join(sorted(missing))} are not in the report"
    if report.exit_code == 0:
        yield from _passed_over(report, before)
    if left and not report.residue:
        yield f"unreported residue: {', '.join(left)}"
    if left and done.code != RESIDUE:
        yield f"unreported residue: exit code {done.code} with {', '.join(left)}"


def _passed_over(report: Report, before: Mapping[str, Verdict]) -> Iterator[str]:
    """What a conformant run may not leave undecided: a MUST at all, a SHOULD without saying so (docs/scope.md)."""
    named = {one.id for one in report.scope.not_judged} if report.scope else set()
    for result in report.results:
        if result.verdict is before.get(result.id):
            continue
        if result.level is Level.MUST:
            yield f"wrong verdict: conformant, although {result.id} could not be judged"
        elif result.id not in named:
            yield f"wrong verdict: conformant, and {result.id} is not named among what was not judged"


def left_behind(cluster: Cluster) -> list[str]:
    """Whatever carries the suite's labels, seen past the proxy. What is about to go is given the time to."""
    served = discover(cluster)
    cluster.learn_versions({key: served[key][0] for key in KINDS if key in served})
    return [str(item) for item in owned.find(cluster)]


def _judged(folder: Path, kubeconfig: Path) -> Finished:
    policy = folder / "policy.yaml"
    policy.write_text(POLICY, encoding="utf-8")
    return run_suite(folder, "-p", small_bodies.__name__, "--kubeconfig", str(kubeconfig), "--policy", str(policy))


def _verdicts(report: Report) -> Mapping[str, Verdict]:
    return {result.id: result.verdict for result in report.results}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
