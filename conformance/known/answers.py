"""What is known of one object of the cluster: one answer, and the rows behind it."""

from collections.abc import Callable, Iterable

import msgspec

from fixtures.model.facts import Fact
from fixtures.verdict.subjects import Inconclusive, NotApplicable


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """``state`` is the answer in a word or two, ``answer`` one sentence, ``unread`` why rows are missing, a clause each."""

    kind: str
    name: str
    state: str
    answer: str
    facts: tuple[Fact, ...]
    unread: tuple[str, ...] = ()


def gathered(*parts: Callable[[], Iterable[Fact]]) -> tuple[tuple[Fact, ...], tuple[str, ...]]:
    """Rows of all parts, and what those parts could not read that have none: what was not read is never shown as absent."""
    facts: list[Fact] = []
    unread: dict[str, None] = {}
    for part in parts:
        try:
            facts += part()
        except (Inconclusive, NotApplicable) as error:
            unread[error.message] = None
    return tuple(facts), tuple(unread)
