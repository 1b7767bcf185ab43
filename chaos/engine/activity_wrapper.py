"""Wraps every activity, so that an exception never skips the rollbacks and no activity follows a failed one.

chaostoolkit lets any ``BaseException`` out of the run without rolling back, runs the remaining actions after a failed one, and
takes an exit code of 30 for "no rollbacks". Here the first failure sets the abort flag; later activities of the method refuse.

Facts: docs/facts/chaostoolkit.md#signals-and-rollbacks.
"""

from __future__ import annotations

import importlib
import signal
from typing import Any

import msgspec
from chaoslib.exceptions import ActivityFailed

from chaos.act.context import current

METHOD = "method"
ROLLBACKS = "rollbacks"
GRACEFUL = 20
"""chaostoolkit's exit code for "stop the method, play the rollbacks"."""

MAX_OUTPUT = 64 << 10
"""Bytes of JSON that one activity may put into the journal."""


def perform(module: str, func: str, arguments: dict[str, Any], phase: str) -> Any:
    """Run one activity. Raises ActivityFailed for whatever it raised, SystemExit and KeyboardInterrupt in the form that rolls back."""
    acting = current()
    if phase == METHOD and acting.abort.reason:
        raise ActivityFailed(f"not done, because the experiment was aborted: {acting.abort.reason}")
    if phase == ROLLBACKS:
        _ask_once()
    try:
        return bounded_output(getattr(importlib.import_module(module), func)(**arguments))
    except (SystemExit, KeyboardInterrupt) as error:
        _ask_once()
        # chaostoolkit ends the method and plays the rollbacks for this code, however the activity tried to leave
        acting.abort.set(f"{func}: {type(error).__name__}")
        raise SystemExit(GRACEFUL) from error
    except BaseException as error:
        acting.abort.set(f"{func}: {type(error).__name__}: {error}")
        raise ActivityFailed(f"{type(error).__name__}: {error}") from error
    finally:
        signal.alarm(0)  # an alarm that an activity set must not go off in the rollbacks


def _ask_once() -> None:
    """Let nobody ask again to stop: a second signal would end the rollbacks.

    A parent with several threads asks more than once when it dies: at each thread that its child is handed on to (prctl(2),
    PR_SET_PDEATHSIG). Whoever cannot wait for the rollbacks has SIGKILL.
    """
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def wrap(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every activity called through :func:`perform`."""
    wrapped = dict(document)
    for phase in (METHOD, ROLLBACKS):
        if phase in document:
            wrapped[phase] = [_wrapped(activity, phase) for activity in document[phase]]
    if hypothesis := document.get("steady-state-hypothesis"):
        probes = [_wrapped(probe, METHOD) for probe in hypothesis.get("probes", ())]
        wrapped["steady-state-hypothesis"] = {**hypothesis, "probes": probes}
    return wrapped


def _wrapped(activity: dict[str, Any], phase: str) -> dict[str, Any]:
    provider = activity["provider"]
    arguments = {
        "module": provider["module"],
        "func": provider["func"],
        "arguments": provider.get("arguments") or {},
        "phase": phase,
    }
    return {**activity, "provider": {"type": "python", "module": __name__, "func": perform.__name__, "arguments": arguments}}


def bounded_output(output: Any) -> Any:
    """An output as JSON that does not swell the journal; what is no JSON, or too long, becomes a short text."""
    try:
        text = msgspec.json.encode(output)
    except (TypeError, ValueError, RecursionError):
        return f"(no JSON: {type(output).__name__})"
    return msgspec.json.decode(text) if len(text) <= MAX_OUTPUT else f"(left out: {len(text)} bytes of JSON)"
