"""GitHub Actions: groups and annotations in a step's log, and text that cannot pass for a command of this or another CI system.

The runner takes any line for a command that starts with ``::``, white space aside, and any that holds ``##[``; the agent of Azure
Pipelines any that holds ``##vso[``, and TeamCity's ``##teamcity[`` (docs/facts/github-actions.md#commands-in-a-log).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Result
from reports import chaos_phrases, phrases
from reports.causes import found_causes
from reports.safe_text import one_line
from reports.verdicts import DISPLAY

VARIABLE = "GITHUB_ACTIONS"
MAX_ANNOTATIONS = 10
"""GitHub shows so many of each kind for a step, and drops the others."""

_COMMAND = re.compile(r"((?:^|[\r\n])[^\S\r\n]*):(?=:)|##(?=\w{0,20}\[)")


def is_on(environment: Mapping[str, str]) -> bool:
    """Whether the output is a step's log."""
    return environment.get(VARIABLE, "").lower() == "true"


def command(name: str, message: str = "", **properties: str) -> str:
    """A command for the runner. Whatever the texts hold, it is one line and one command."""
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{name}{' ' * bool(given)}{given}::{_data(message)}"


def annotate(report: Report, chaos: ChaosReport | None = None) -> Iterator[str]:
    """One annotation for each thing that fails the run itself, then for each cause and each experiment that did not pass.

    Requirements and experiments are in the order of the summary.
    """
    rows = [("error", one_line(sentence, 600), title) for title, sentence in _of_the_run(report)]
    found = [(_ids(one.requirements), one.title, one.verdict, next(iter(one.sentences(400)), "")) for one in found_causes(report)]
    if chaos is not None:
        found += [(one.id, one.title, one.verdict, one.message) for one in chaos_phrases.attention(chaos.experiments)]
    for id_, title, verdict, message in found:
        rows.append((DISPLAY[verdict].annotation, one_line(f"{title}: {message}" if message else title), one_line(f"{id_} {verdict}", 80)))
    shown: Counter[str] = Counter()
    for level, text, title in rows:
        shown[level] += 1
        if level and shown[level] <= MAX_ANNOTATIONS:
            yield command(level, text, title=title)


def _of_the_run(report: Report) -> Iterator[tuple[str, str]]:
    """What makes a run red that no requirement tells: what was left behind, what had to be judged, waivers, the baseline."""
    if report.residue:
        yield "Left behind", f"{len(report.residue)} objects, such as {report.residue[0]}"
    yield from (("Not judged", text) for text in phrases.shortfalls(report))
    for blocker in phrases.blockers(report):
        yield from ((blocker.title, text) for text in blocker.sentences)


def _ids(requirements: list[Result]) -> str:
    more = f" and {len(requirements) - 3} more" if len(requirements) > 3 else ""
    return ", ".join(result.id for result in requirements[:3]) + more


def harmless(text: str) -> str:
    """The text with nothing in it that a runner takes for a command."""
    return _COMMAND.sub(lambda found: f"{found[1]}: " if found[1] is not None else "## ", text)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
