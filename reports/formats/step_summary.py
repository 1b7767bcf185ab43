"""The summary of a step on GitHub Actions: ``report.md`` at the end of the file that ``GITHUB_STEP_SUMMARY`` names.

GitHub drops a step's whole summary when it is larger than 1 MiB, what other commands of the step wrote included.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report
from reports import chaos_phrases
from reports.formats import markdown

MAX_BYTES = 1 << 20
_LEAST = 1_000
"""Bytes below which a summary would be cut to nothing."""


def append(report: Report, chaos: ChaosReport | None, environ: Mapping[str, str]) -> str:
    """Add the summary of a run, where GitHub Actions asks for one. Returns what kept it out, as one sentence; "" otherwise."""
    name = environ.get("GITHUB_STEP_SUMMARY", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not name:
        return ""
    path = Path(name)
    try:
        before = path.stat().st_size if path.exists() else 0
        room = MAX_BYTES - before - 2
        if room < _LEAST:
            text = f"{chaos_phrases.overall(report, chaos)}; see the log of this step, its summary is full.\n"
            if len(text.encode()) > room:
                return f"GITHUB_STEP_SUMMARY has {before} bytes already, and GitHub drops more than {MAX_BYTES}: no summary was added"
        else:
            text = markdown.render(report, chaos, max_bytes=min(room, markdown.MAX_BYTES))
        with path.open("ab") as file:
            file.write(b"\n\n" if before else b"")
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        return f"GITHUB_STEP_SUMMARY: {error.strerror or error}"
    return ""
