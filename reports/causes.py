"""What needs attention, by cause: one cause, its symptoms (requirements), what to do. Page and Markdown lead with it.

A terminal is read from its end: there they stand last, next to the verdict.

A node that is not Ready makes five requirements fail, and a right that is missing makes sixty undecided: each is one cause.
Findings without a cause (errors of the suite, records older than schema 1.9) stand by requirement.
"""

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from functools import cached_property

import msgspec

from fixtures.text.sentences import counted, duration, listed
from fixtures.verdict.findings import COMPARISON, MAX_OTHERS_KEPT
from fixtures.verdict.record import FindingCause, InventoryRow, Level, Report, Result, SubjectResult, Verdict
from fixtures.verdict.subjects import causes_that_blame_nodes, node_concerned
from reports import phrases, remedies
from reports.phrases import SUBJECT_ORDER
from reports.safe_text import one_line

_Object = tuple[str, str, str]
"""Kind, namespace and name."""

SELF = "\N{HORIZONTAL ELLIPSIS}"
"""Stands for the subject's own name where a text of a group names each of its subjects."""


UNKNOWN_POOL = "product not known"


class Symptom(msgspec.Struct, frozen=True):
    """What one requirement found of one subject; ``subject`` is None where it could not be judged at all."""

    result: Result
    subject: SubjectResult | None

    @property
    def verdict(self) -> Verdict:
        """The subject's, else the requirement's. A SHOULD that failed warns."""
        if self.subject is None or (self.subject.verdict is Verdict.FAILED and self.result.verdict is Verdict.WARNED):
            return self.result.verdict
        return self.subject.verdict

    def sentence(self, limit: int) -> str:
        """One line about it."""
        return one_line(self.result.message, limit) if self.subject is None else phrases.subject_sentence(self.subject, limit)


class Found(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A cause and its symptoms. ``cause`` is None where a requirement stands for itself."""

    report: Report
    cause: FindingCause | None
    symptoms: list[Symptom]

    @cached_property
    def verdict(self) -> Verdict:
        """The most urgent of its symptoms'."""
        return min((one.verdict for one in self.symptoms), key=phrases.SUBJECT_ORDER.index)

    @property
    def key(self) -> str:
        """The code of the cause, or the id of the requirement that stands for itself."""
        return self.cause.code if self.cause else self.symptoms[0].result.id

    @property
    def level(self) -> Level:
        """MUST if one requirement is."""
        return Level.MUST if any(one.result.level is Level.MUST for one in self.symptoms) else Level.SHOULD

    @property
    def title(self) -> str:
        """What is so."""
        return self.cause.title if self.cause else self.symptoms[0].result.title

    @cached_property
    def requirements(self) -> list[Result]:
        """The requirements that show it, in the order of the record."""
        return list({one.result.id: one.result for one in self.symptoms}.values())

    @cached_property
    def subjects(self) -> list[SubjectResult]:
        """All subjects, those that need attention most first."""
        return phrases.by_urgency(one.subject for one in self.symptoms if one.subject is not None)

    @property
    def most_shown(self) -> int:
        """How many sentences a short list shows: a comparison is about what it lists."""
        return 10 if any(result.id == COMPARISON for result in self.requirements) else 3

    @cached_property
    def groups(self) -> "list[SubjectGroup]":
        """The subjects of which the same was found stand together."""
        return in_short(subject_groups(self.subjects))

    @cached_property
    def _wrong(self) -> list[SubjectResult]:
        """Its subjects, each once: those that nobody waived, if there are any."""
        return list(
            {one.path: one for one in self.subjects if self.verdict is Verdict.WAIVED or one.verdict is not Verdict.WAIVED}.values()
        )

    @cached_property
    def nodes(self) -> set[str]:
        """Names of the nodes that it is a fault of."""
        blaming = causes_that_blame_nodes(self.report)
        return {node_concerned(subject, blaming) for subject in self._wrong} - {""}

    def _rows(self, names: Container[str]) -> list[InventoryRow]:
        return [row for row in self.report.inventory if row.node in names]

    @cached_property
    def devices(self) -> int:
        """Devices of the nodes that it is a fault of."""
        return sum(map(device_count, self._rows(self.nodes)))

    @property
    def lasted(self) -> str:
        """``For 2 d, since 2026-11-20 06:00 UTC: 768 device-hours at most``, of all devices of its nodes.

        Empty where no earlier run shows it.
        """
        since, now = phrases.moment(self.report.causes_since.get(self.key, "")), phrases.started(self.report)
        if since is None or now is None or since >= now:
            return ""
        hours = phrases.device_hours(self.devices, since, now)
        words = f"For {duration((now - since).total_seconds())}, since {since:%Y-%m-%d %H:%M} UTC"
        return f"{words}: {hours} device-hours at most" if hours else words

    @cached_property
    def where(self) -> str:
        """``On 2 nodes with 16 devices: pool-a (2); by node: n1 (3), n2 (1); in namespace team-a (4: Job/train 3)``: by pool, node, owner.

        Empty where no subject is on a node or in a namespace.
        """
        parts = []
        if rows := self._rows({node for subject in self._wrong for node in _nodes_of(subject)}):
            nodes = f"on {counted(len(rows), 'node')} with {counted(sum(map(device_count, rows)), 'device')}"
            pools = Counter(map(pool_of, rows))
            parts.append(f"{nodes}: {listed((f'{name} ({count:,})' for name, count in pools.most_common()), 5)}")
        if per_node := Counter(one_line(subject.node, 60) for subject in self._wrong if subject.node):
            parts.append(f"by node: {listed((f'{name} ({count:,})' for name, count in per_node.most_common()), 5)}")
        spaces: dict[str, list[str]] = {}
        for subject in self._wrong:
            if subject.namespace:
                spaces.setdefault(one_line(subject.namespace, 60), []).append(one_line(subject.owner, 120))
        if spaces:
            most = sorted(spaces.items(), key=lambda one: -len(one[1]))
            parts.append(f"in namespace{'s' * (len(spaces) > 1)} {listed((f'{name} ({_owned(owners)})' for name, owners in most), 5)}")
        words = "; ".join(parts)
        return words[:1].upper() + words[1:]

    @property
    def facts(self) -> list[str]:
        """Where it is, unless its one sentence says so, and how long it has lasted: lines for a view of text."""
        told = len(self.subjects) == 1 and not self.subjects[0].owner
        return [line for line in ("" if told else self.where, self.lasted) if line]

    @property
    def unnamed(self) -> list[str]:
        """Sentences of symptoms without a subject, equal ones once."""
        return list(dict.fromkeys(filter(None, (one.sentence(1_000) for one in self.symptoms if one.subject is None))))

    def sentences(self, limit: int) -> list[str]:
        """A line for each symptom, equal ones once."""
        return list(dict.fromkeys(filter(None, (one.sentence(limit) for one in phrases.by_urgency(self.symptoms)))))

    @property
    def advice(self) -> str:
        """What to do, as prose; of a waived one nothing."""
        if self.verdict is Verdict.WAIVED:
            return ""
        return self.cause.advice if self.cause else self.symptoms[0].result.remediation

    @cached_property
    def commands(self) -> list[remedies.Commands]:
        """Commands with the names of what is wrong: those that only read first."""
        if self.verdict is Verdict.WAIVED:
            return []
        wrong = [one for one in self.subjects if one.verdict is not Verdict.WAIVED]
        return remedies.of_cause(self.report, self.cause, wrong) if self.cause else remedies.commands(self.report, self.symptoms[0].result)


def found_causes(report: Report) -> list[Found]:
    """The causes of a report, most urgent first: by verdict, then MUST before SHOULD, then by how many subjects they have."""
    known = {cause.code: cause for cause in report.causes}
    groups: dict[str, list[Symptom]] = {}
    symptoms = list(_symptoms(report))
    where = {(symptom.subject.cause, one) for symptom in symptoms if symptom.subject for one in _objects(symptom.subject)}
    for symptom in symptoms:
        groups.setdefault(_group(symptom, known, where), []).append(symptom)
    made = [Found(report=report, cause=known.get(key), symptoms=members) for key, members in groups.items()]
    rank = phrases.SUBJECT_ORDER.index
    return sorted(made, key=lambda one: (rank(one.verdict), one.level is not Level.MUST, -len(one.symptoms)))


def _symptoms(report: Report) -> Iterator[Symptom]:
    for result in phrases.attention(report):
        troubled = phrases.troubled(result)
        if result.verdict is Verdict.WAIVED:
            yield Symptom(result, None)
        else:
            yield from (Symptom(result, subject) for subject in troubled)
        if not troubled:
            yield Symptom(result, None)


def _group(symptom: Symptom, known: dict[str, FindingCause], where: set[tuple[str, _Object]]) -> str:
    """The code of the cause that explains a symptom best, or the id of its requirement."""
    code = symptom.subject.cause if symptom.subject else symptom.result.cause
    if symptom.result.verdict is Verdict.WAIVED or code not in known:
        return symptom.result.id
    seen = {code}
    while symptom.subject is not None:
        objects = _objects(symptom.subject)
        behind = next(
            (one for one in known[code].symptom_of if one in known and one not in seen and any((one, place) in where for place in objects)),
            "",
        )
        if not behind:
            break
        code = behind
        seen.add(code)
    return code


def _objects(subject: SubjectResult) -> list[_Object]:
    """The objects that a subject is or is a part of, its node among them."""
    kind, name = subject.kind.lower(), subject.name.partition(" ")[0]
    _, on, node = subject.name.rpartition(" on ")
    nodes = {subject.node, node if on else ""} - {""}
    return [(kind, subject.namespace, name), *(("node", "", one) for one in sorted(nodes))]


def _nodes_of(subject: SubjectResult) -> set[str]:
    """Names of the nodes that a subject is, is a part of, or is on."""
    return {name for kind, _, name in _objects(subject) if kind == "node" and name}


def nodes_in_need(report: Report) -> set[str]:
    """Accelerator nodes of which something was found that nobody waived, as far as the record keeps subjects."""
    known, blaming = {row.node for row in report.inventory}, causes_that_blame_nodes(report)
    troubled = (subject for result in phrases.attention(report) for subject in phrases.troubled(result))
    return known & {node_concerned(subject, blaming) for subject in troubled if subject.verdict is not Verdict.WAIVED}


def need_words(report: Report) -> str:
    """``54 of 1,000 accelerator nodes need attention``; empty where no node was read."""
    count, total = len(nodes_in_need(report)), len(report.inventory)
    least = "at least " if any(map(is_capped, phrases.attention(report))) else ""
    return f"{least}{count:,} of {total:,} accelerator nodes {'needs' if count == 1 else 'need'} attention" if total else ""


def is_capped(result: Result) -> bool:
    """Whether a subject that the record does not list may be one that did not pass."""
    kept = Counter(one.verdict for one in result.subjects)
    return result.subjects_omitted > 0 and any(kept[verdict] >= MAX_OTHERS_KEPT for verdict in phrases.ATTENTION)


def pool_of(row: InventoryRow) -> str:
    """The pool of a node: what a label calls it, else its product."""
    return one_line(row.pool or row.product, 60) or UNKNOWN_POOL


def _owned(owners: list[str]) -> str:
    """``4: Job/train 3, Job/tune 1``, or ``4: Job/train``: how many subjects, and who controls those that have an owner."""
    found = Counter(filter(None, owners)).most_common()
    return f"{len(owners):,}" + (
        f": {listed((name if count == len(owners) else f'{name} {count:,}' for name, count in found), 3)}" if found else ""
    )


def device_count(row: InventoryRow) -> int:
    """Devices of a node: those that it offers as resources, or those that drivers publish for it where these are more."""
    offered = sum(int(amount) for amount in row.capacity.values() if amount.isdecimal() and len(amount) < 9)
    return max(offered, sum(len(one.devices) + one.left_out for one in row.slices))


class SubjectGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Subjects of one kind with one verdict, of which the same was seen and expected. A text that differs by name alone says ``…``."""

    verdict: Verdict
    kind: str
    observed: str
    expected: str
    source: str
    message: str
    subjects: list[SubjectResult]


def subject_groups(subjects: Iterable[SubjectResult]) -> list[SubjectGroup]:
    """The groups, most urgent verdict first, then the largest, else in the order of the record."""
    found: dict[tuple[str, ...], list[SubjectResult]] = {}
    for one in subjects:
        texts = (_nameless(text, one) for text in (one.observed, one.expected, one.source, one.message))
        found.setdefault((one.verdict, one.kind, *texts), []).append(one)
    rank = {verdict: index for index, verdict in enumerate(SUBJECT_ORDER)}
    groups = [_made_of(key, members) for key, members in found.items()]
    return sorted(groups, key=lambda group: (rank[group.verdict], -len(group.subjects)))


def in_short(found: Iterable[SubjectGroup]) -> list[SubjectGroup]:
    """The groups by their message alone, for a list without columns: what was observed may differ. A subject of two symptoms is one."""
    merged: dict[tuple[str, ...], list[SubjectGroup]] = {}
    for one in found:
        stated = (one.message,) if one.message else (one.observed, one.expected)
        merged.setdefault((one.verdict, one.kind, *stated), []).append(one)
    return [
        msgspec.structs.replace(members[0], subjects=list({subject.path: subject for one in members for subject in one.subjects}.values()))
        for members in merged.values()
    ]


def _made_of(key: tuple[str, ...], members: list[SubjectResult]) -> SubjectGroup:
    first = members[0]
    observed, expected, source, message = key[2:] if len(members) > 1 else (first.observed, first.expected, first.source, first.message)
    return SubjectGroup(
        verdict=first.verdict, kind=first.kind, observed=observed, expected=expected, source=source, message=message, subjects=members
    )


def _nameless(text: str, subject: SubjectResult) -> str:
    """The text without the subject's own name, when the name is long enough to be no word of the text by chance."""
    for name in (subject.name, subject.name.partition(" ")[0]):
        if len(name) >= 4 and name in text:
            return text.replace(name, SELF)
    return text
