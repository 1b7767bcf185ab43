"""A requirement of the catalogue, and the pytest mark that connects a test to it."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import pytest

from conformance.causes import load_causes
from fixtures.cluster.client import Cluster
from fixtures.cluster.kinds import KINDS
from fixtures.model.cluster import Scope
from fixtures.verdict.record import Access, Level

ID = re.compile(r"[A-Z]{2,6}-\d{2}")
_ASSERTION = re.compile(r"(?i)^(ensure|verify|check|test|make sure)\b")
MAX_TITLE = 110


class Requirement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One requirement. ``reads`` are resource keys of the snapshot; ``writes`` are ``"verb resource-key"`` pairs.
    In a catalogue file they may name groups (``catalogue_groups.yaml``). ``of_nodes``: it judges nodes, or what is on one, so that
    ``--nodes`` can ask about one of them.

    ``tells_tenants``: it tells the platform's namespaces from tenants', and reads what proves them. ``hints`` are kinds that only
    add words or further findings to what the others show: without them it is judged all the same, and the result says so.
    """

    id: str
    title: str
    level: Level
    access: Access
    rationale: str
    references: list[str]
    of_nodes: bool = False
    causes: list[str] = []  # codes of what it can find in an area; causes that all areas share go without saying
    reads: list[str] = []
    writes: list[str] = []
    optional_reads: list[str] = []  # read when served; a kind that is not served is no trouble
    weighs: list[str] = []  # optional reads of which a refused list is no trouble by itself: the check says where it matters
    hints: list[str] = []
    tells_tenants: bool = False
    tenant_proofs: list[str] = []  # not written in a catalogue: optional reads for the sake of tells_tenants alone
    excuses: list[str] | None = None  # optional reads whose objects may excuse what is bad without them; None: each of them may
    adds: list[str] = []  # optional reads whose objects are further subjects, and change nothing about the others

    @property
    def area(self) -> str:
        """The area: the part of the id before the dash."""
        return self.id.partition("-")[0]

    @property
    def lists(self) -> list[str]:
        """Every kind that is listed for it."""
        return [*self.reads, *self.optional_reads, *self.hints]

    def problems(self) -> list[str]:
        """What is wrong with the entry; empty when it is well-formed. A title says what holds where the requirement passes."""
        found = []
        if not ID.fullmatch(self.id):
            found.append("the id is not AREA-NN")
        if len(self.title) > MAX_TITLE or self.title.endswith("."):
            found.append(f"the title is longer than {MAX_TITLE} characters or ends with a full stop")
        if _ASSERTION.match(self.title):
            found.append("the title is an order, not an assertion")
        if len(self.rationale.split()) < 5:
            found.append("rationale says too little")
        if not self.references:
            found.append("no reference")
        found += [f"names the unknown cause {code!r}" for code in self.causes if code not in load_causes()]
        found += [f"reads the unknown kind {key!r}" for key in self.lists if key not in KINDS]
        named = {"weighs": self.weighs, "excuses": self.excuses or (), "adds": self.adds}
        found += [
            f"{field} {key!r}, which is no optional read" for field in named for key in named[field] if key not in self.optional_reads
        ]
        found += [f"writes {text!r}, which is neither 'VERB RESOURCE' nor a group" for text in self.writes if " " not in text]
        return found


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What the selected requirements do to a cluster, so that rights can be reviewed before they are missed: ids by what they need.

    ``reads`` maps a resource key (``"apps/daemonsets"``) that is listed; ``writes`` maps a right such
    as ``"create pods"`` (verb, resource key).
    """

    reads: dict[str, list[str]]
    writes: dict[str, list[str]]


def needs_of(requirements: Iterable[Requirement], ceiling: Access) -> Needs:
    """What the requirements within a run's access do to the cluster: resource keys and verbs to the ids that need them."""
    reads: dict[str, list[str]] = {}
    writes: dict[str, list[str]] = {}
    for one in requirements:
        if one.access.rank <= ceiling.rank:
            for key in one.lists:
                reads.setdefault(key, []).append(one.id)
            for right in one.writes:
                writes.setdefault(right, []).append(one.id)
    return Needs(reads=reads, writes=writes)


Made = TypeVar("Made")


def _as_it_is(answer: Any) -> Any:
    return answer


class Form(Generic[Made]):
    """How an answer is kept: ``keep`` makes plain JSON of it, of the type ``kind``, and ``give`` makes the answer of that again."""

    def __init__(self, kind: Any, keep: Callable[[Made], object] = _as_it_is, give: Callable[[Any], Made] = _as_it_is) -> None:
        self.kind, self.keep, self.give = kind, keep, give


class Asks(Protocol):
    """Asks the cluster what no list says, each question once in a run. Evidence keeps the answer, without what looks like a credential."""

    def __call__(self, question: str, ask: Callable[[Cluster], Made], form: Form[Made]) -> Made:
        """The answer to a question, by its words. Raises what ``ask`` raises."""


class Once(Protocol):
    """Makes something that serves the whole run, when it is first asked for."""

    def __call__(self, make: Callable[[Cluster, Scope], Made]) -> Made:
        """What ``make`` gives for the cluster, and for what is known of it."""


def requirement(
    id_: str, *, devices: int | None = None, holders: int = 0, once: Mapping[str, Callable[[Cluster, Scope], object]] | None = None
) -> pytest.MarkDecorator:
    """Mark a test as the one that judges a requirement: ``@requirement("FENCE-01")``.

    ``devices``: the probe may run beside those of other requirements, and holds at most so many units of a resource on one node.
    ``holders``: so many pods with one unit it needs at least, which may be those of other probes (:meth:`Workspace.hold`).
    ``once`` makes further arguments of the test, by name; what it makes serves the whole run.
    """
    return pytest.mark.requirement(id_, devices=devices, holders=holders, once=once or {})
