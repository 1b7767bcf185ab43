"""Two runs compared by (requirement id, subject): before and after an upgrade, or this run and its baseline.

A requirement that only one of the suites knows is named, and never blamed on the cluster. What was judged before and is not now is
a regression: nobody knows what became of it. So is what fails now and was left out before: nobody knows that it failed then. A subject
that a run counted but did not keep cannot be called fixed or gone. Chaos experiments of the runs are compared by their ids.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from fnmatch import fnmatchcase

import msgspec

from fixtures.text.sentences import listed
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.coverage import is_judged, judged_of
from fixtures.verdict.findings import COMPARISON, tallies_of
from fixtures.verdict.record import ComparedChange, Comparison, Level, Report, Result, Verdict
from reports import chaos_phrases, phrases
from reports.diff import coverage, experiments
from reports.diff.coverage import WORST_FIRST, Replaced, other_nodes, renamed, replaced_nodes
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import WORD

MAX_CHANGES_KEPT = 500

_EXPERIMENTS = list(experiments.Bucket)


class Bucket(StrEnum):
    """What became of a (requirement, subject) pair, most urgent first."""

    NEW_FAILURE = "new failure"
    NEW_INCONCLUSIVE = "became inconclusive"
    NO_LONGER_JUDGED = "no longer judged"
    STILL_FAILING = "still failing"
    FIXED = "fixed"
    WAIVED = "now waived"
    SUBJECT_GONE = "subject gone"
    REQUIREMENT_ADDED = "requirement added"
    REQUIREMENT_REMOVED = "requirement removed"
    REQUIREMENT_CHANGED = "requirement changed"


class Change(msgspec.Struct, kw_only=True, frozen=True):
    """One difference. ``subject`` is "" when it is about the requirement as a whole; ``gating`` when it can fail a gate."""

    bucket: Bucket
    requirement: str
    title: str
    level: Level
    subject: str = ""
    old: Verdict | None = None
    new: Verdict | None = None
    message: str = ""
    gating: bool = False

    @property
    def sentence(self) -> str:
        """``NET-05 MUST (passed -> not applicable): …``."""
        words = " -> ".join(WORD[v] if v else "none" for v in (self.old, self.new))
        if self.old is not None and self.new is None:
            words = f"{WORD[self.old]} before, {'gone' if self.subject else 'no result'} now"
        name = f" {one_line(self.subject, NAME_LIMIT)}" if self.subject else ""
        message = f": {one_line(self.message, 400)}" if self.message else ""
        return f"{one_line(self.requirement, NAME_LIMIT)} {self.level.value}{name} ({words}){message}"


AnyChange = Change | experiments.Change


class Side(msgspec.Struct, kw_only=True, frozen=True):
    """What the head of a comparison says about one run."""

    run: str
    target: str
    cluster_uid: str
    kubernetes_version: str
    headline: str
    scope: str
    exit_code: int


class Difference(msgspec.Struct, kw_only=True, frozen=True):
    """All changes from ``old`` to ``new``, in the order of the new report, removed requirements last.

    ``refused`` says why they prove nothing, as a clause; nothing gates then.
    """

    old: Side
    new: Side
    changes: list[Change]
    experiments: list[experiments.Change] = []
    replaced: list[Replaced] = []
    nodes_added: tuple[str, ...] = ()
    nodes_gone: tuple[str, ...] = ()
    same_policy: bool = True
    refused: str = ""

    @property
    def every(self) -> list[AnyChange]:
        """The changes of requirements, and after them those of experiments."""
        return [*self.changes, *self.experiments]

    def of(self, bucket: Bucket) -> list[Change]:
        """The changes of one bucket."""
        return [change for change in self.changes if change.bucket is bucket]

    def sparing(self, spared: Callable[[AnyChange], bool]) -> Difference:
        """The same difference, in which these changes gate nothing."""
        changes = [msgspec.structs.replace(one, gating=False) if spared(one) else one for one in self.changes]
        held = [msgspec.structs.replace(one, gating=False) if spared(one) else one for one in self.experiments]
        return msgspec.structs.replace(self, changes=changes, experiments=held)


MAX_NODES_NAMED = 5

_LOST = (Bucket.NO_LONGER_JUDGED, experiments.Bucket.NO_LONGER_HELD, experiments.Bucket.REMOVED)
"""Buckets of what may be accepted."""

_BAD = (Verdict.FAILED, Verdict.WARNED)
_UNSURE = (Verdict.INCONCLUSIVE, Verdict.ERROR)

_State = tuple[Verdict, str]  # verdict and one sentence


def compare(old: Report, new: Report, old_chaos: ChaosReport | None = None, new_chaos: ChaosReport | None = None) -> Difference:
    """What changed from ``old`` to ``new``, and between the chaos experiments of the two runs."""
    before, after = ({result.id: result for result in made.results if result.id != COMPARISON} for made in (old, new))
    changes: list[Change] = []
    replaced = replaced_nodes(old, new)
    same_policy = _same_policy(old, new)
    for result in after.values():
        known = before.get(result.id)
        if known is not None:
            changes += _compare(renamed(known, result, replaced), result, same_policy)
        elif because := coverage.without_result(result.id, old, "earlier"):
            changes += _judged_first(result, because)
        else:
            changes.append(_whole(Bucket.REQUIREMENT_ADDED, result, new=result.verdict))
    for result in before.values():
        if result.id not in after:
            lost = coverage.left_out(result, new)
            changes.append(_lost(result, lost) if lost else _whole(Bucket.REQUIREMENT_REMOVED, result, old=result.verdict))
    added, gone = other_nodes(old, new, replaced)
    return Difference(
        old=_side(old, old_chaos),
        new=_side(new, new_chaos),
        changes=changes,
        experiments=experiments.compare(old_chaos, new_chaos),
        replaced=replaced,
        nodes_added=added,
        nodes_gone=gone,
        same_policy=same_policy,
    )


def _same_policy(old: Report, new: Report) -> bool:
    """Whether owners and presets changed the same of the suite's defaults; older records do not say so."""
    return old.policy is None or new.policy is None or old.policy.changed == new.policy.changed


def accept(difference: Difference, patterns: Iterable[str]) -> Difference:
    """The same comparison, in which a loss that a pattern names gates nothing.

    Patterns are globs of a requirement (``NET-05``), an area (``NET``), an experiment (``A3``), a subject (``Node gpu-3``), or a
    requirement and a subject (``ADV-* Node gpu-3``).
    """
    wanted = tuple(patterns)

    def is_accepted(change: AnyChange) -> bool:
        if change.bucket not in _LOST:
            return False
        names = coverage.named(change.requirement, change.subject) if isinstance(change, Change) else (change.experiment,)
        return any(fnmatchcase(name, pattern) for name in names for pattern in wanted)

    return difference.sparing(is_accepted)


def regressions(difference: Difference) -> list[AnyChange]:
    """Changes that make the new run worse where a gate looks: what failed, became undecidable or is no longer judged since."""
    return [change for change in difference.every if change.gating]


def render(difference: Difference) -> str:
    """The comparison as plain text, most urgent first; one line per change."""
    lines = [f"old: {_side_line(difference.old)}", f"new: {_side_line(difference.new)}"]
    if difference.old.cluster_uid != difference.new.cluster_uid:
        lines.append("NOTE: the cluster UIDs differ; these may be two different clusters.")
    if difference.old.target != difference.new.target:
        lines.append("NOTE: the kinds of target differ.")
    if not difference.same_policy:
        lines.append("NOTE: the policies differ; what one of them leaves out may have changed with it.")
    lines += [f"NOTE: {text}." for text in node_sentences(difference)]
    for bucket in (*Bucket, *experiments.Bucket):
        if sentences := [one.sentence for one in difference.every if one.bucket is bucket]:
            lines += ["", f"{bucket.value} ({len(sentences)})", *(f"  {text}" for text in sentences)]
    if not difference.every:
        lines += ["", "no difference"]
    worse = len(regressions(difference))
    lines += ["", f"{worse} regressions" if worse != 1 else "1 regression"]
    return "\n".join(lines) + "\n"


def node_sentences(difference: Difference) -> list[str]:
    """Which accelerator nodes were replaced, came or went, without full stops."""
    found = [f"nodes were replaced by others of their kind: {_names(kind.gone)} -> {_names(kind.new)}" for kind in difference.replaced]
    found += [f"new nodes: {_names(difference.nodes_added)}"] if difference.nodes_added else []
    found += [f"nodes that are gone: {_names(difference.nodes_gone)}"] if difference.nodes_gone else []
    return found


def _names(names: Iterable[str]) -> str:
    return listed((one_line(name, NAME_LIMIT) for name in names), MAX_NODES_NAMED)


def _compare(old: Result, new: Result, same_policy: bool) -> Iterator[Change]:
    if (old.title, old.level) != (new.title, new.level):
        was = f"was {old.level.value}: {old.title}"
        yield _whole(Bucket.REQUIREMENT_CHANGED, new, old=old.verdict, new=new.verdict, message=was)
    if lost := coverage.whole(old, new):
        yield _lost(new, lost)
        return
    tells = is_judged(new) or new.verdict is Verdict.WAIVED  # a waiver may cover what could not be judged: its subjects are known
    gone = {lost.subject: lost for lost in coverage.subjects(old, new, same_policy=same_policy)} if tells else {}
    yield from (_lost(new, lost) for lost in gone.values())
    before, after = ({key: state for key, state in states.items() if not key or key not in gone} for states in (_states(old), _states(new)))
    for key in dict.fromkeys([*after, *before]):
        change = _change(new, key, before.get(key), after.get(key))
        if change:
            yield change
    if hidden := _hidden(old, new):
        yield _made(Bucket.NEW_INCONCLUSIVE, new, "", old.verdict, new.verdict, hidden)


def _judged_first(new: Result, because: str) -> Iterator[Change]:
    """What is bad or undecided of a requirement that the earlier run knew and did not judge."""
    blank = msgspec.structs.replace(new, verdict=Verdict.NOT_APPLICABLE, judged=0, total=0, subjects=[], subjects_omitted=0, tallies=[])
    for change in _compare(blank, new, same_policy=True):
        message = f"not judged before ({one_line(because, 200)}){f': {change.message}' if change.message else ''}"
        yield msgspec.structs.replace(change, old=None, message=message)


def _hidden(old: Result, new: Result) -> str:
    """What nobody can tell of the subjects that the later record does not keep; empty where they are the ones of before."""
    before, after = ({one.verdict: one for one in result.tallies or tallies_of(result.subjects)} for result in (old, new))
    kept = Counter(one.verdict for one in new.subjects)
    for verdict in (*_BAD, *_UNSURE):
        now, then = after.get(verdict), before.get(verdict)
        if now is not None and now.subjects > kept[verdict] and now != then:
            counts = f"{now.subjects} subjects {verdict} now, {then.subjects if then else 0} before"
            return f"{counts}, and the later record keeps {kept[verdict]} of them: others than before may be among them"
    return ""


def _change(new: Result, key: str, old: _State | None, state: _State | None) -> Change | None:
    was = old[0] if old else None
    if state is None:
        return _vanished(new, key, was)
    verdict, message = state
    bucket: Bucket | None = None
    if verdict in _BAD:
        bucket = Bucket.STILL_FAILING if was in _BAD else Bucket.NEW_FAILURE
    elif verdict in _UNSURE:
        bucket = None if was in _UNSURE else Bucket.NEW_INCONCLUSIVE
    elif verdict is Verdict.WAIVED:
        bucket = None if was is Verdict.WAIVED else Bucket.WAIVED
    elif was in _BAD:
        bucket = Bucket.FIXED
    return _made(bucket, new, key, was, verdict, message) if bucket else None


def _vanished(new: Result, key: str, was: Verdict | None) -> Change | None:
    """A pair the new run does not list. Only what was failing is worth a line."""
    if was not in _BAD or (new.verdict in _UNSURE and not new.subjects):  # the requirement itself says it was not judged
        return None
    if not key:  # the requirement as a whole: its subjects say more, unless it is well now
        return None if new.verdict in (*_BAD, *_UNSURE) else _made(Bucket.FIXED, new, key, was, new.verdict, "")
    if new.subjects_omitted:
        message = f"not among the subjects kept in the new report ({new.subjects_omitted} omitted)"
        return _made(Bucket.FIXED if new.verdict is Verdict.PASSED else Bucket.STILL_FAILING, new, key, was, None, message)
    return _made(Bucket.SUBJECT_GONE, new, key, was, None, "")


def _lost(result: Result, lost: coverage.Lost) -> Change:
    return _made(Bucket.NO_LONGER_JUDGED, result, lost.subject, lost.old, lost.new, lost.message)


def _made(bucket: Bucket, result: Result, key: str, old: Verdict | None, new: Verdict | None, message: str) -> Change:
    gating = (bucket is Bucket.NEW_FAILURE and result.verdict in (Verdict.FAILED, Verdict.ERROR)) or (
        bucket in (Bucket.NEW_INCONCLUSIVE, Bucket.NO_LONGER_JUDGED) and result.level is Level.MUST
    )
    return Change(
        bucket=bucket,
        requirement=result.id,
        title=result.title,
        level=result.level,
        subject=key,
        old=old,
        new=new,
        message=message,
        gating=gating,
    )


def _whole(bucket: Bucket, result: Result, *, old: Verdict | None = None, new: Verdict | None = None, message: str = "") -> Change:
    return Change(
        bucket=bucket, requirement=result.id, title=result.title, level=result.level, old=old, new=new, message=message or result.message
    )


def _states(result: Result) -> dict[str, _State]:
    """Verdict by subject; the worst when a subject appears twice. "" stands for the requirement when no subject explains it."""
    states: dict[str, _State] = {}
    for subject in result.subjects:
        key = subject.path
        if key not in states or WORST_FIRST.index(subject.verdict) < WORST_FIRST.index(states[key][0]):
            states[key] = (subject.verdict, phrases.subject_detail(subject))
    explained = {
        Verdict.FAILED: _BAD,
        Verdict.WARNED: _BAD,
        Verdict.INCONCLUSIVE: _UNSURE,
        Verdict.ERROR: _UNSURE,
        Verdict.WAIVED: (Verdict.WAIVED, *_BAD),
    }.get(result.verdict)
    if result.verdict is Verdict.WAIVED:
        states = {key: (Verdict.WAIVED if v in _BAD else v, text) for key, (v, text) in states.items()}
    if explained and not any(verdict in explained for verdict, _ in states.values()):
        states[""] = (result.verdict, result.message)
    return states


def _side(report: Report, chaos: ChaosReport | None) -> Side:
    return Side(
        run=report.run.id,
        target=phrases.target_words(report.target),
        cluster_uid=report.target.cluster_uid,
        kubernetes_version=report.target.kubernetes_version,
        headline=chaos_phrases.overall(report, chaos),
        scope="" if chaos_phrases.only_chaos(report, chaos) else _judged(report),
        exit_code=report.exit_code,
    )


def _judged(report: Report) -> str:
    """``49 of 57 requirements judged``."""
    if report.scope is None:
        return f"{sum(map(is_judged, report.results))} judged"
    return one_line(judged_of(report.scope), NAME_LIMIT)


def _side_line(side: Side) -> str:
    version = one_line(side.kubernetes_version, NAME_LIMIT) or "unknown"
    scope = f" ({side.scope})" if side.scope else ""
    return f"{one_line(side.run, NAME_LIMIT)}: {side.target}, Kubernetes {version}, {side.headline}{scope}, exit code {side.exit_code}"


def sentence(change: AnyChange) -> str:
    """``no longer judged: NET-05 MUST (passed -> not applicable): …``, ``recovery is slower: A3 …``."""
    return f"{change.bucket.value}: {change.sentence}"


def comparison(baseline: Report, difference: Difference) -> Comparison:
    """What the record of the later run says of the earlier one. Changes are kept most urgent first."""
    by_bucket: dict[str, list[ComparedChange]] = {bucket.value: [_kept(one) for one in difference.of(bucket)] for bucket in Bucket}
    for change in sorted(difference.experiments, key=lambda one: _EXPERIMENTS.index(one.bucket)):
        by_bucket.setdefault(change.bucket.value, []).append(_kept(change))
    changes = [change for found in by_bucket.values() for change in found]
    return Comparison(
        run=baseline.run.id,
        started_at=baseline.run.started_at,
        cluster_uid=baseline.target.cluster_uid,
        kubernetes_version=baseline.target.kubernetes_version,
        counts={bucket: len(found) for bucket, found in by_bucket.items() if found},
        changes=changes[:MAX_CHANGES_KEPT],
        changes_omitted=max(len(changes) - MAX_CHANGES_KEPT, 0),
    )


def _kept(one: AnyChange) -> ComparedChange:
    name, subject = (one.requirement, one.subject) if isinstance(one, Change) else (one.experiment, "")
    return ComparedChange(
        bucket=one.bucket.value,
        requirement=name,
        subject=subject,
        old=one.old,
        new=one.new,
        message=one_line(one.message, 400),
        gating=one.gating,
    )
