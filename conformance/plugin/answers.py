"""What a cluster said to requirements beside its lists: kept as evidence of a run, and given again where the run is judged again."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from conformance.requirement import Form, Made
from fixtures.cluster.trouble import ApiTrouble
from fixtures.text import typed
from fixtures.verdict.subjects import Inconclusive, NotApplicable

NO_CLUSTER = "NoCluster"
"""Why a requirement that asks the cluster is not judged over a saved snapshot."""

NOT_KEPT = "AnswerNotKept"
"""Why a requirement that had an answer is not judged again."""

_ERRORS = {kind.__name__: kind for kind in (ApiTrouble, Inconclusive, NotApplicable)}


class Kept(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An answer as evidence has it: what was ``said``, or the kind, code and message of what was ``raised`` instead.

    ``whole``: nothing was taken from it. ``left_out`` says why nothing of it is there.
    """

    question: str
    said: Any = None
    raised: tuple[str, str, str] | None = None
    whole: bool = True
    left_out: str = ""


class _Known(msgspec.Struct):
    """An answer, or what was raised instead."""

    answer: Any = None
    error: Inconclusive | NotApplicable | None = None


class Answers:
    """The answers of one process, by question. ``kept`` are those of a run that is judged again; None: the cluster is asked.

    ``gaps`` says of requirements which answer is not there as the run got it, as a clause.
    """

    def __init__(self, kept: Iterable[Kept] | None = None) -> None:
        self._kept = None if kept is None else {one.question: one for one in kept}
        self._known: dict[str, _Known] = {}
        self.gaps: dict[str, str] = {}

    def ask(self, id_: str, question: str, ask: Callable[[], Made], form: Form[Made], folder: Path | None) -> Made:
        """The answer to a question of a requirement. A run's folder gets it as evidence, where one is named."""
        if self._kept is not None:
            return self._given(id_, self._kept.get(question, Kept(question=question, left_out="it is not there")), form)
        if question not in self._known:
            self._known[question] = found = _asked(ask)
            if folder is not None:
                _keep(folder, question, found, form)
        known = self._known[question]
        if known.error is not None:
            raise known.error
        answer: Made = known.answer
        return answer

    def _given(self, id_: str, kept: Kept, form: Form[Made]) -> Made:
        kind, code, message = kept.raised or ("", "", "")
        missing = kept.left_out or "no run keeps that there was no cluster" * (code == NO_CLUSTER)
        if missing or not kept.whole:
            self.gaps[id_] = f"an answer that it rests on is not kept whole: {kept.question}" + f" ({missing})" * bool(missing)
        if missing:
            raise NotApplicable(NOT_KEPT, self.gaps[id_])
        if kept.raised is not None:
            raise _ERRORS.get(kind, Inconclusive)(code, message)
        return form.give(typed.convert(kept.said, form.kind))


def _asked(ask: Callable[[], Made]) -> _Known:
    try:
        return _Known(answer=ask())
    except (Inconclusive, NotApplicable) as error:
        return _Known(error=error)


def _keep(folder: Path, question: str, found: _Known, form: Form[Any]) -> None:
    from reports.evidence import bundle  # imported late: most runs keep no evidence

    answer: dict[str, object] = {}
    if (error := found.error) is not None:
        answer["raised"] = [type(error).__name__, error.code, error.message]
    else:
        answer["said"] = msgspec.json.decode(msgspec.json.encode(form.keep(found.answer)))
    with suppress(OSError):  # what is not there is named where the run is judged again
        bundle.write_answer(folder, question, answer)
