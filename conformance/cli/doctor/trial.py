"""A trial run for the doctor: the read requirements are judged in this process, silently, and no verdict of theirs is kept.

So what would be judged is known and not guessed. While the target is still open, the API server is asked about every right.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Generator, Sequence

import msgspec
import pytest

from conformance.cli.doctor.diagnosis import Diagnosis, diagnose
from conformance.inv.rights import Review, ask_rights, rights
from conformance.plugin.progress import REPORT
from conformance.plugin.session import REQUIREMENT, STATE, State
from conformance.plugin.starting import OPTIONS, SUITE
from conformance.requirement import needs_of
from fixtures.verdict.record import Access

USAGE = 4
_ENDED = "Exit: gpu-conformance: "
"""What pytest writes before the words of who ends it."""


class CannotOpen(Exception):
    """The target could not be opened, or an option is wrong: one line."""


class TrialFailed(Exception):
    """The trial ended without a record: the suite's own fault, or a cluster of the suite's that did not start. Holds why."""


def examine(target: Sequence[str], ceiling: Access) -> Diagnosis:
    """Judge what reading can judge, and foretell the rest of a run with the access ``ceiling``.

    ``target`` are pytest's options that name the cluster and the policy. Raises :class:`CannotOpen` and :class:`TrialFailed`.
    """
    examiner = _Examiner(ceiling)
    said, complained = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-") as folder:
        arguments = [*OPTIONS, str(SUITE), "--read-only", "--report-dir", folder, *target]
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            code = int(pytest.main(arguments, plugins=[examiner]))
    if code == USAGE:
        lines = [line.removeprefix("ERROR: ") for line in complained.getvalue().splitlines() if line.strip()]
        raise CannotOpen(" ".join(lines) or "the options are not understood")
    if examiner.diagnosis is None:
        ended = complained.getvalue().rpartition(_ENDED)[2]
        raise TrialFailed(ended if _ENDED in complained.getvalue() else f"the trial run ended without a record: {said.getvalue()[-3_000:]}")
    return examiner.diagnosis


class _Examiner:
    """Looks at the trial run from inside, while its target is open."""

    def __init__(self, ceiling: Access) -> None:
        self._ceiling = ceiling
        self._opened = time.monotonic()
        self.diagnosis: Diagnosis | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """The target has answered: its own start does not count as time of the doctor's."""
        self._opened = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Every requirement has its result by now. Views of the record are not written."""
        state = session.config.stash.get(STATE, None)
        if state is not None:
            state.report_folder = None
        yield
        report = session.config.stash.get(REPORT, None)
        if state is None or report is None or not state.has_snapshot:
            return
        holding = {one.stash[REQUIREMENT].id: one for one in session.items if REQUIREMENT in one.stash}
        devices = frozenset(id_ for id_, item in holding.items() if _holds_devices(item))
        diagnosis = diagnose(state, report, ceiling=self._ceiling, reviews=_reviews(state, self._ceiling), with_devices=devices)
        self.diagnosis = msgspec.structs.replace(diagnosis, seconds=round(time.monotonic() - self._opened, 2))


def _holds_devices(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("requirement")
    return bool(mark is not None and mark.kwargs.get("devices"))


def _reviews(state: State, ceiling: Access) -> list[Review]:
    """Each right that a run up to ``ceiling`` needs, with the API server's answer. Nothing for a saved snapshot."""
    cluster = state.opened.cluster
    if cluster is None:
        return []
    wanted = rights(needs_of(state.catalogue.by_id.values(), ceiling), state.snapshot)
    return list(ask_rights(cluster, wanted))
