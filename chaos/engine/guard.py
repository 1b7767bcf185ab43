"""Ends an experiment when others are hurt: looks at every sample while it acts, and asks for its end at once.

The child is told to undo, and not asked: whatever it does, its parent replays the ledger (litmus stopped reporting before it stopped:
https://github.com/litmuschaos/litmus/issues/4991).
"""

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType

from chaos.engine.processes import Stop
from chaos.model.records import StopCause
from chaos.observe.sampler import Sampler
from chaos.observe.view import Sample
from chaos.safety.lease import AbortFlag
from chaos.verdict.expectations import shown_value

HARM = {
    "harm.pods": "a pod of others with devices, on another node than the targets, failed or lost a device",
    "harm.nodes": "another node than the targets left service",
}
"""Conditions that stop every experiment."""


class Guard:
    """A context manager: watches from its beginning to its end. ``seconds``: how long a condition may not be known.

    ``stop`` has a reason once the experiment has to end, and ``cause`` says which condition it was.
    """

    def __init__(self, sampler: Sampler, conditions: Mapping[str, str], seconds: float, abort: AbortFlag) -> None:
        self.stop = Stop()
        self.cause: StopCause | None = None
        self._sampler = sampler
        self._conditions = conditions
        self._seconds = seconds
        self._abort = abort
        self._known = dict.fromkeys(conditions, sampler.now)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos-guard", daemon=True)

    def __enter__(self) -> "Guard":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ended.set()
        self._sampler.wake()
        self._thread.join()
        self.stop.close()

    def _run(self) -> None:
        try:
            self.cause = self._first_harm()
        except Exception as error:  # whoever cannot look does not let a fault go on
            why = f"not known: {type(error).__name__}: {error}"[:300]
            self.cause = StopCause(signal=next(iter(self._conditions)), value=why, at=time.time(), unread=True)
        if self.cause is not None:
            reason = f"{self._conditions[self.cause.signal]}: {self.cause.value}"
            try:
                self._abort.set(reason)
            finally:  # a disk that is full keeps nobody from ending it
                self.stop.request(reason)

    def _first_harm(self) -> StopCause | None:
        """The first condition that holds, or is not known for too long; None once the experiment has ended."""
        seen = len(self._sampler.samples)
        while not self._ended.is_set():
            self._sampler.wait(self._more_than(seen), self._sampler.now + 1.0)
            self._ended.wait(0.2 if self._sampler.failure else 0)  # nothing more to wait for
            new = self._sampler.samples[seen:]
            seen += len(new)
            if cause := next(filter(None, map(self._held, new)), None) or self._unread():
                return cause
        return None

    def _more_than(self, count: int) -> Callable[[list[Sample]], bool]:
        return lambda samples: self._ended.is_set() or len(samples) > count

    def _held(self, sample: Sample) -> StopCause | None:
        for name in (name for name in self._conditions if name in sample.values):
            self._known[name] = sample.end
            if value := sample.values[name]:
                return StopCause(signal=name, value=shown_value(value), at=self._sampler.wall + sample.end)
        return None

    def _unread(self) -> StopCause | None:
        for name, known in self._known.items():
            if self._sampler.now - known > self._seconds:
                last = next(iter(self._sampler.samples[-1:]), None)
                why = self._sampler.failure or (last.errors.get(name) if last else "") or "no sample"
                return StopCause(signal=name, value=f"not known for {self._seconds:g} s: {why}", at=self._sampler.wall + known, unread=True)
        return None
