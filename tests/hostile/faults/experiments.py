"""A seeded experiment through the fault proxy: a fault may cost its verdict, and never leaves anything that is not told and recovered.

The experiment is the short one of the engine's tests: a label on a node, held for a second and taken off.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from unittest.mock import patch

import msgspec

from chaos.engine import campaign, runner
from chaos.engine.campaign import Campaign, Refused
from chaos.engine.recover import RecoveryResult
from chaos.model.records import LeaseRefused
from chaos.safety.lease_keeper import LeaseKeeper
from chaos.verdict.artefacts import Conformance
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.verdict.record import Verdict
from tests.chaos import leak_scan
from tests.chaos.catalogue.documents import document
from tests.chaos.engine.stage import Stage, load, stage
from tests.chaos.leak_scan import Fingerprint
from tests.chaos.ledger.simulated_cluster import recover
from tests.hostile.faults.campaign import Outcome
from tests.hostile.faults.plans import experiment_faults
from tests.hostile.faults.proxy import Fault, through

_SECONDS = {"deadline": {"live": 60, "simulated": 10}, "recovery": {"live": 60, "simulated": 4}}
_UNDO_SECONDS = 4.0
_RECOVER_SECONDS = 60.0
_LEASE_SECONDS = 4
_SURELY_EXPIRED = 5.0 * _LEASE_SECONDS
_VOUCHER = f"priorityclasses {CHAOS_PREFIX}-2"
"""What vouches for a run whose process lives, as this one does: it is not for ``recover`` to remove."""

_HONEST = {Verdict.PASSED, Verdict.INCONCLUSIVE, Verdict.ERROR}
"""The cluster is healthy and the experiment proves nothing against it: ``failed`` would be said of an answer, not of the cluster."""


class _NoConformance:
    """Stands for the suite, which is not run here."""

    def judge(self, areas: Iterable[str], own: Iterable[str] = ()) -> Conformance:
        return Conformance(at="2026-01-01T00:00:00+00:00")

    def forget(self) -> None:
        """Nothing is remembered."""


def endured(seed: int, folder: Path) -> Outcome:
    """The experiment of a seed on a cluster of its own."""
    return under(experiment_faults(Random(seed)), folder, seed=seed)


def under(faults: tuple[Fault, ...], folder: Path, *, seed: int = 0) -> Outcome:
    """The experiment under certain faults on a cluster of its own."""
    outcome = Outcome(seed=seed, simulate="experiment", faults=[], exit_code=0)
    (folder / "cluster").mkdir(parents=True)
    (folder / "run").mkdir()
    shorter = [patch.dict(times, dict.fromkeys(times, _UNDO_SECONDS)) for times in (runner.UNDO_SECONDS, campaign.END_SECONDS)]
    with stage(folder / "cluster") as on, shorter[0], shorter[1]:
        before = leak_scan.scan(on.cluster)
        verdict, residue = _carried_out(on, faults, folder, outcome)
        outcome.wrong += _wrong(verdict, residue, before.differences(leak_scan.scan(on.cluster)))
        outcome.changed = int(verdict is not Verdict.PASSED)
        outcome.wrong += _unrecovered(on.cluster, folder / "run", before)
    return outcome


def _carried_out(on: Stage, faults: tuple[Fault, ...], folder: Path, outcome: Outcome) -> tuple[Verdict | None, list[str]]:
    """The verdict (None: it was refused before anything was done) and what the run says is left."""
    with through(on.kubeconfig, folder / "proxied", faults) as proxy:
        try:
            return _campaign(on, folder)
        except (Refused, ApiTrouble) as error:
            return None, [str(error)]
        except Exception as error:
            outcome.wrong.append(f"crash: {type(error).__name__}: {error}")
            return None, []
        finally:
            outcome.met(proxy)


def _campaign(on: Stage, folder: Path) -> tuple[Verdict, list[str]]:
    cluster = Cluster.from_kubeconfig(folder / "proxied")
    where = msgspec.structs.replace(on.where(folder / "run"), cluster=cluster)
    cluster.learn_versions(where.access.versions)
    where = msgspec.structs.replace(where, access=msgspec.structs.replace(where.access, kubeconfig=str(folder / "proxied")))
    made = Campaign(where)
    made._conforming = _NoConformance()  # type: ignore[assignment]
    made._lease = LeaseKeeper(cluster, where.run_id, made.stop.request, seconds=_LEASE_SECONDS, renew_seconds=0.5)
    with made:
        result = made.carry_out(load(document(seconds=_SECONDS)))
    return result.verdict, made.residue


def _wrong(verdict: Verdict | None, residue: list[str], left: list[str]) -> Iterator[str]:
    if verdict is not None and verdict not in _HONEST:
        yield f"wrong verdict: {verdict}"
    if left and verdict is Verdict.PASSED and not residue:
        yield f"wrong verdict: passed with {left}"
    if left and not residue:
        yield f"unreported residue: {left}"
    if verdict is None and left and "left behind" not in " ".join(residue):
        yield f"unreported residue of a refused run: {left}, which said: {residue}"


def _unrecovered(cluster: Cluster, folder: Path, before: Fingerprint) -> Iterator[str]:
    """What ``recover`` on a connection that works does not put back."""
    try:
        done = _recovered(cluster, folder)
    except Exception as error:
        yield f"recover raised {type(error).__name__}: {error}"
        return
    left = [line for line in before.differences(leak_scan.scan(cluster)) if _VOUCHER not in line]
    if not done.clean or left:
        yield f"recover left {left}, {done}"


def _recovered(cluster: Cluster, folder: Path) -> RecoveryResult:
    """As soon as the Lease of the run has expired: its process, which is this one, has not ended."""
    until = time.monotonic() + _SURELY_EXPIRED
    while True:
        try:
            return recover(cluster, folder, seconds=_RECOVER_SECONDS)
        except LeaseRefused:
            if time.monotonic() > until:
                raise
            threading.Event().wait(0.5)
