"""The table of incidents, ``docs/incidents.md``."""

from collections.abc import Iterable

from tests.incidents.incidents import Incident, incidents

HEAD = """\
# Incidents that others had

Public reports of GPU clusters that went wrong. Each is written into a healthy simulated cluster as its reports describe it, and the
requirements named here must turn red and name the object. `make incidents` judges them all. Files: `tests/incidents/reports/`.

{seen} of {total} are seen. "Not yet" says what is missing.

| id | what happened | reports | seen by |
|---|---|---|---|
"""


def page() -> str:
    """The page in Markdown. Whether the table is true is what ``test_incidents.py`` tests."""
    every = incidents()
    seen = sum(not one.later for one in every)
    return HEAD.format(seen=seen, total=len(every)) + "".join(_rows(every))


def _rows(every: Iterable[Incident]) -> Iterable[str]:
    for one in every:
        by = f"not yet: {one.later} ({', '.join(one.requirements)})" if one.later else ", ".join(one.requirements)
        yield f"| {one.id} | {one.title} | {', '.join(map(_link, one.reports))} | {by} |\n"


def _link(report: str) -> str:
    repository, number, issue = report.partition("#")
    return f"[{report}](https://github.com/{repository}/issues/{issue})" if number and "://" not in report else report
