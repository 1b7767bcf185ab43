"""The child process that makes the faults: ``python -m chaos.engine.child FOLDER``, in a session of its own, on its main thread.

chaostoolkit needs the main thread, installs signal handlers, keeps global state and cannot be timed out; so it gets a process
that its parent can end. It dies in order (rollbacks played) when its parent goes, and leaves a journal whatever happens.

Facts: docs/facts/chaostoolkit.md#signals-and-rollbacks.
"""

import contextlib
import ctypes
import logging
import os
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from chaos.act.context import ActivityContext, bounded_output, wrap
from chaos.engine.processes import Handover, take_handover
from chaos.ledger.config_maps import Mirror
from chaos.ledger.file import Ledger
from chaos.model.plan import Plan
from chaos.model.records import Aborted
from chaos.observe.sampler import await_sample
from chaos.safety.lease import AbortFlag, must_hold
from chaos.verdict.artefacts import EXPERIMENT, JOURNAL, LEDGER, PLAN, SAMPLES, Stored, write
from fixtures.ownership.proof import Proof
from fixtures.ownership.proof_record import CHAOS_PREFIX
from fixtures.policy.allowlist import cluster_uid
from fixtures.system.process import collect_rarely
from fixtures.text import typed

MAX_JOURNAL = 8 << 20
_PR_SET_PDEATHSIG = 1


def main(folder: Path) -> int:
    """Run the experiment of a folder. 0: the journal is written, whatever it says; 1: there is a journal with an error only."""
    collect_rarely()
    handover = take_handover(folder)
    _die_with(handover.parent)
    plan = typed.decode((folder / PLAN).read_bytes(), Plan)
    stored = typed.decode((folder / EXPERIMENT).read_bytes(), Stored)
    journal: dict[str, Any] = {"status": "failed", "error": "the engine did not come to its end", "run": [], "rollbacks": []}
    try:
        acting = _acting(folder, plan, handover)
        with acting.as_current():
            journal = _run(stored.document, acting)
        return 0
    except BaseException as error:
        journal["error"] = f"{type(error).__name__}: {error}"[:1000]
        return 1
    finally:
        _keep(folder / JOURNAL, journal)


def _acting(folder: Path, plan: Plan, handover: Handover) -> ActivityContext:
    cluster = handover.access.open()
    found = cluster_uid(cluster)
    if not plan.cluster_uid or found != plan.cluster_uid:  # the kubeconfig was changed since the parent read it
        raise Aborted(
            f"the plan is for cluster {plan.cluster_uid or '(unknown)'}, and the kubeconfig now leads to {found}: nothing was done"
        )
    proof = Proof.open(cluster, plan.run_id, prefix=CHAOS_PREFIX, renewing=False)  # the parent renews it
    mirror = Mirror.open(cluster, plan.run_id, plan.experiment)
    ledger = Ledger.create(folder / LEDGER, plan.origin, mirror, proof)
    terms = handover.terms.planned(plan.experiment, plan.nodes)
    abort = AbortFlag(folder)
    return ActivityContext(
        cluster,
        plan,
        ledger,
        abort,
        allowed=lambda: must_hold(cluster, plan.run_id),
        terms=terms,
        proof=proof,
        sampled=lambda since: await_sample(folder / SAMPLES, plan.seconds["gap"], since),
    )


def _run(document: dict[str, Any], acting: ActivityContext) -> dict[str, Any]:
    from chaoslib.experiment import run_experiment
    from chaoslib.run import RunEventHandler
    from chaoslib.types import Strategy

    class Watched(RunEventHandler):  # type: ignore[misc]
        """What the method brought about is sampled before it is undone, unless it was cut short."""

        def method_completed(self, experiment: object, state: object = None) -> None:
            if not acting.abort.reason:
                acting.sampled(datetime.now(UTC))

    logging.getLogger("chaostoolkit").setLevel(logging.WARNING)
    settings = {"runtime": {"rollbacks": {"strategy": "always"}}}  # ignored where chaostoolkit documents it, honoured here
    journal = run_experiment(
        wrap(document), settings=settings, experiment_vars=({}, {}), strategy=Strategy.DEFAULT, event_handlers=[Watched()]
    )
    return dict(journal)


def _keep(path: Path, journal: dict[str, Any]) -> None:
    """Write the journal in one step, bounded; without its outputs when it is too long with them."""
    journal.pop("experiment", None)  # the document is in a file of its own, as it was before it was wrapped
    if len(msgspec.json.encode(journal, enc_hook=str)) > MAX_JOURNAL:
        for record in (*journal.get("run", ()), *journal.get("rollbacks", ())):
            record["output"] = bounded_output("x" * MAX_JOURNAL)
    write(path, msgspec.json.decode(msgspec.json.encode(journal, enc_hook=str)))


def _die_with(parent: int) -> None:
    """Play the rollbacks when the parent dies: a runner killed with SIGKILL cannot ask for it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGUSR1), 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit("the parent is gone: nothing was done")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
