"""A small training job on one node, and what happens to one of its ranks: stopped or killed."""

from typing import Any

from chaoslib.exceptions import ActivityFailed

from chaos.act import canary_pods
from chaos.activities.base import create, current, listed, node_target, own_namespace, plan_facts, poll, seconds
from chaos.activities.hosts import PROMPT, run, unit_name
from chaos.ledger.undos.objects import AbsentArgs
from chaos.model.plan import GANG_LABEL, canary_namespace
from fixtures.kubernetes.models import Json
from fixtures.model.objects import annotations_of, labels_of, name_of, phase_of, uid_of

INDEX = "batch.kubernetes.io/job-completion-index"
JOB = "ranks"
_SIGNALS = {"stall": "-STOP", "kill": "-KILL"}


def start_ranks(size: int = 2, devices: int = 1) -> dict[str, Any]:
    """An Indexed Job of ``size`` ranks on the plan's node, that fails as a whole when one rank fails. Wait until all run.

    Every rank has a watchdog: its pod's deadline, the duration ``watchdog``.
    """
    node, watchdog, word = node_target().name, int(seconds("watchdog")), marker("$(JOB_COMPLETION_INDEX)")
    plan, known = current().plan, plan_facts()
    body = canary_pods.ranks(plan, known, JOB, size=size, devices=devices, node=node, seconds=watchdog, marker=word)
    created = create("batch/jobs", body, own_namespace())
    if not poll(lambda: sum(phase_of(rank) == "Running" for rank in _ranks()) >= size, seconds("start")):
        states = ", ".join(f"{name_of(rank)} {phase_of(rank)}" for rank in _ranks()) or "there is none"
        raise ActivityFailed(f"{size} ranks did not start within {seconds('start'):g} s: {states}")
    return {"job": JOB, "uid": uid_of(created), "size": size}


def disturb_rank(how: str) -> dict[str, Any]:
    """``stall`` (SIGSTOP) or ``kill`` (SIGKILL) the first rank's processes. A stall ends by itself after the duration ``stall``:

    its SIGCONT is armed on the host before.
    """
    if how not in _SIGNALS:
        raise ActivityFailed(f"how: expected stall or kill, got {how!r}")
    acting = current()
    running = (rank for rank in sorted(_ranks(), key=name_of) if phase_of(rank) == "Running")
    pod = next((rank for rank in running if annotations_of(rank).get(INDEX) == "0"), None)
    if pod is None:
        raise ActivityFailed("the first rank does not run")
    args = AbsentArgs(key="pods", namespace=canary_namespace(acting.plan), name=name_of(pod), run_id=acting.plan.run_id, grace_seconds=0)
    with acting.fault("object.absent", args) as fault:
        if how == "stall":
            run(
                (
                    *("systemd-run", f"--on-active={seconds('stall'):g}", PROMPT, f"--unit={unit_name('continue')}"),
                    *("pkill", "-CONT", "-f", pattern("0")),
                )
            )
        done = run(("pkill", _SIGNALS[how], "-f", pattern("0")))
        fault.applied({"pod": name_of(pod), "uid": uid_of(pod), "signal": _SIGNALS[how], "said": done.output[-200:]})
    return {"pod": name_of(pod), "uid": uid_of(pod), "how": how}


def marker(index: str) -> str:
    """The last word of a rank's command line: found by ``pkill -f``, and nobody else has it."""
    return f"gpu-conformance-rank-{index}-{current().plan.run_id}"


def pattern(index: str) -> str:
    """A regular expression that matches the marker and not itself.

    ``pkill -f`` goes by command lines, those of the programs that run it too (``nsenter``, which waits for it in the injector pod), and
    would stop them.
    """
    text = marker(index)
    return f"[{text[0]}]{text[1:]}"


def _ranks() -> list[Json]:
    return [pod for pod in listed("pods", canary_namespace(current().plan)) if labels_of(pod).get(GANG_LABEL) == JOB]
