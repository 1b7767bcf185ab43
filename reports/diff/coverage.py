"""Requirements and subjects that an earlier run judged and a later one did not.

A subject that is not listed any more was left out, or is gone from the cluster: a record cannot tell. It counts as no longer judged
when it is of a kind that stays (a node, an agent), and fewer of its kind were judged than before: probes choose another node in each
run, and machines are replaced by others. What tenants start ends when they wish, and is never missed.

An upgrade often brings new machines, and a name is not what a machine is: a node that is gone and a new one with the same product and
capacity stand for each other. Which one for which is decided for each requirement by what it said, worst first: a fault that moved to
another machine of the kind is an old fault. A run that did not come to its end says nothing good of a cluster.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from fixtures.text.sentences import in_order, listed
from fixtures.verdict.coverage import DECIDED, is_judged
from fixtures.verdict.record import Access, Cause, InventoryRow, Report, Result, Verdict
from reports.safe_text import one_line

_STAY = frozenset(
    {"node", "agent", "pool", "resource", "device", "daemonset", "clusterpolicy", "gpucluster", "nicclusterpolicy", "resourceslice"}
)
"""Kinds of subjects that are part of the cluster itself, in lower case."""

_CHOSEN = frozenset({"namespace"})
"""Kinds of which the policy says which are judged: under another policy, one that is not listed was probably left out."""

ENDED_EARLY = {2: "it was interrupted", 3: "it ended in an error of its own", 5: "nothing was selected"}
"""Exit codes of runs that ended before they had judged what was selected, and what each means."""

WORST_FIRST = (Verdict.FAILED, Verdict.WARNED, Verdict.ERROR, Verdict.INCONCLUSIVE, Verdict.WAIVED, Verdict.PASSED, Verdict.NOT_APPLICABLE)


class Lost(msgspec.Struct, kw_only=True, frozen=True):
    """Something that was judged and is not any more. ``subject`` is "" for the requirement as a whole."""

    subject: str = ""
    old: Verdict
    new: Verdict | None = None
    message: str


def whole(old: Result, new: Result) -> Lost | None:
    """The requirement, when it was judged and now is not applicable."""
    if not is_judged(old) or new.verdict is not Verdict.NOT_APPLICABLE:
        return None
    because = one_line(new.message or new.reason_code, 400)
    return Lost(old=old.verdict, new=new.verdict, message=f"{old.judged} judged before, none now: {because}")


def left_out(old: Result, report: Report) -> Lost | None:
    """A requirement without a result, when the later run's catalogue has it or may have it."""
    if not is_judged(old) or not (because := without_result(old.id, report, "later")):
        return None
    return Lost(old=old.verdict, message=because)


def without_result(requirement: str, report: Report, which: str) -> str:
    """Why a run that knows a requirement has no result of it, as a clause; empty when its catalogue does not have the requirement.

    An option left it out, or the run ended early. A record without a scope does not say what its run left out, and one whose scope
    counts more requirements than it names does not say what became of the others: it may be among these.
    """
    if report.scope is None and not report.results:
        return f"the {which} run judged no requirement"
    if report.scope is None:
        return f"the {which} report has no result of it, and does not say what its run left out"
    known = {one.id: one for one in report.scope.not_judged}
    if (one := known.get(requirement)) is not None:
        return one.because
    if len(known.keys() | {result.id for result in report.results}) < report.scope.requirements:
        return f"the {which} report has no result of it, and counts more requirements than it names"
    return ""


def subjects(old: Result, new: Result, *, same_policy: bool = True) -> Iterator[Lost]:
    """Subjects that were judged and are not any more, of a requirement that is judged in both runs."""
    stay = _STAY if same_policy else _STAY | _CHOSEN
    after: dict[str, set[Verdict]] = {}
    for subject in new.subjects:
        after.setdefault(subject.path, set()).add(subject.verdict)
    before = {subject.path: subject for subject in old.subjects if subject.verdict in DECIDED}
    messages = {subject.path: subject.message for subject in new.subjects}
    counts_before, counts_after = _counts(old), _counts(new)
    for name, subject in before.items():
        kind = subject.kind.lower()
        if after.get(name) == {Verdict.NOT_APPLICABLE} and not (_another_chosen(new, kind) and counts_after[kind] >= counts_before[kind]):
            yield Lost(subject=name, old=subject.verdict, new=Verdict.NOT_APPLICABLE, message=one_line(messages[name], 400))
    if old.subjects_omitted or new.subjects_omitted:
        yield from _counted(old, new)
        return
    for name, subject in before.items():
        kind = subject.kind.lower()
        if kind in stay and name not in after and counts_after[kind] < counts_before[kind]:
            message = f"{counts_after[kind]} of {counts_before[kind]} are left"
            yield Lost(subject=name, old=subject.verdict, message=message)


def _another_chosen(new: Result, kind: str) -> bool:
    """Whether the requirement may have judged another of the kind instead: a probe goes to the freest node of each product."""
    return kind in _STAY and new.access is not Access.READ


def _counted(old: Result, new: Result) -> Iterator[Lost]:
    """Records do not keep every subject: their numbers tell, where all that they keep is of kinds that stay."""
    kinds = {subject.kind.lower() for subject in (*old.subjects, *new.subjects)}
    if kinds <= _STAY and new.judged < old.judged:
        yield Lost(old=old.verdict, new=new.verdict, message=f"{old.judged} subjects were judged before, {new.judged} now")


def _counts(result: Result) -> Counter[str]:
    """Judged subjects by kind, each named once."""
    return Counter(kind for kind, _ in {(one.kind.lower(), one.path) for one in result.subjects if one.verdict in DECIDED})


def named(requirement: str, lost: str) -> tuple[str, ...]:
    """What a pattern that accepts a loss may match: the requirement, its area, the subject, or both."""
    names = (requirement, requirement.partition("-")[0])
    return (*names, lost, f"{requirement} {lost}") if lost else names


def cut_short(report: Report) -> str:
    """Why a run says less than it was asked for, as a clause; empty when it came to its end."""
    reasons = [f"exit code {report.exit_code}: {ENDED_EARLY[report.exit_code]}"] if report.exit_code in ENDED_EARLY else []
    missed = [one.id for one in report.scope.not_judged if one.cause is Cause.CUT_SHORT] if report.scope else []
    reasons += [f"it did not reach {listed(missed)}"] if missed else []
    return "; ".join(reasons)


class Replaced(msgspec.Struct, frozen=True):
    """Nodes of one product and capacity: names that are gone, and names that are new."""

    gone: tuple[str, ...]
    new: tuple[str, ...]


def replaced_nodes(old: Report, new: Report) -> list[Replaced]:
    """The kinds of nodes of which some are gone and some are new, from the inventories of both runs."""
    before, after = _by_kind(old), _by_kind(new)
    kept = {row.node for row in old.inventory} & {row.node for row in new.inventory}
    found = []
    for kind, names in before.items():
        gone = tuple(name for name in names if name not in kept)
        fresh = tuple(name for name in after.get(kind, ()) if name not in kept)
        if gone and fresh:
            found.append(Replaced(gone, fresh))
    return found


def other_nodes(old: Report, new: Report, replaced: Sequence[Replaced]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Accelerator nodes that only the later run has, and those that only the earlier one had, without replaced ones."""
    before, after = ({row.node for row in made.inventory} for made in (old, new))
    known = {name for kind in replaced for name in (*kind.gone, *kind.new)}
    return tuple(in_order(after - before - known)), tuple(in_order(before - after - known))


def renamed(old: Result, new: Result, replaced: Sequence[Replaced]) -> Result:
    """The older result as if its replaced nodes had the names of those that took their place."""
    names = _names(old, new, replaced)
    if not names:
        return old
    subjects = [
        msgspec.structs.replace(one, name=names[one.name]) if one.kind == "Node" and one.name in names else one for one in old.subjects
    ]
    return msgspec.structs.replace(old, subjects=subjects)


def _names(old: Result, new: Result, replaced: Sequence[Replaced]) -> Mapping[str, str]:
    before, after = _ranks(old), _ranks(new)
    names: dict[str, str] = {}
    for kind in replaced:
        gone = sorted((name for name in kind.gone if name in before), key=lambda name: (before[name], name))
        fresh = sorted((name for name in kind.new if name in after), key=lambda name: (after[name], name))
        names |= dict(zip(gone, fresh, strict=False))
    return names


def _ranks(result: Result) -> dict[str, int]:
    """The worst verdict of each node, as its place in the order of verdicts."""
    ranks: dict[str, int] = {}
    for one in result.subjects:
        if one.kind == "Node":
            ranks[one.name] = min(ranks.get(one.name, len(WORST_FIRST)), WORST_FIRST.index(one.verdict))
    return ranks


def _by_kind(report: Report) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[str]]:
    kinds: dict[tuple[str, tuple[tuple[str, str], ...]], list[str]] = defaultdict(list)
    for row in report.inventory:
        if row.product or row.capacity:
            kinds[_kind(row)].append(row.node)
    return kinds


def _kind(row: InventoryRow) -> tuple[str, tuple[tuple[str, str], ...]]:
    return row.product, tuple(sorted(row.capacity.items()))
