"""Whether what conformed before the experiment conforms after it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from chaos.verdict.artefacts import AFTER, BEFORE, ArtefactError, Artefacts, Conformance
from chaos.verdict.findings import finding
from fixtures.verdict.chaos_record import ChaosFinding
from fixtures.verdict.record import Verdict

_HELD = frozenset({Verdict.PASSED, Verdict.WARNED, Verdict.WAIVED})


def conformance_findings(artefacts: Artefacts) -> Iterator[ChaosFinding]:
    """What conformed before conforms after. What did not is no finding about the fault."""
    try:
        before, after = artefacts.conformance(BEFORE), artefacts.conformance(AFTER)
    except ArtefactError as error:
        yield finding(Verdict.ERROR, "conformance", error.code, str(error))
        return
    for name, read in ((BEFORE, before), (AFTER, after)):
        if read.trouble:
            yield finding(Verdict.INCONCLUSIVE, "conformance", "ConformanceUndecided", f"{name}: {read.trouble}")
            return
    if not before.requirements:
        yield finding(Verdict.NOT_APPLICABLE, "conformance", "", "no requirement of these areas applies to this cluster")
        return
    yield from _regressions(before, after)


def _regressions(before: Conformance, after: Conformance) -> Iterator[ChaosFinding]:
    worse = 0
    for id_, was in before.requirements.items():
        now = after.requirements.get(id_)
        if was.verdict not in _HELD or (now is not None and now.verdict in _HELD):
            continue
        worse += 1
        name = f"conformance {id_}"
        if now is None or now.verdict in (Verdict.INCONCLUSIVE, Verdict.ERROR):
            yield finding(
                Verdict.INCONCLUSIVE,
                name,
                "ConformanceUndecided",
                f"passed before, and could not be judged after: {now.message if now else ''}",
            )
        else:
            yield finding(Verdict.FAILED, name, "ConformanceLost", f"passed before, {now.verdict} after: {now.message}")
    held = sum(was.verdict in _HELD for was in before.requirements.values())
    if not held:
        message = f"none of the {len(before.requirements)} requirements of these areas held before the fault"
        yield finding(Verdict.NOT_APPLICABLE, "conformance", "", message)
    elif not worse:
        yield finding(Verdict.PASSED, "conformance", "", f"{held} requirements held before and after")
