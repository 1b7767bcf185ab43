"""Markdown for a GitHub step summary or a pull-request comment, below 64 kB whatever the run held.

Text from the cluster is escaped so that it cannot form markup, links, images, HTML, table cells, issue references
or mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixtures.record import Report, Result, Verdict
from reports import view
from reports.text import NAME_LIMIT, one_line

MAX_BYTES = 64_000
MAX_SUBJECTS = 3

_SIGN = {
    Verdict.PASSED: "✅",
    Verdict.FAILED: "❌",
    Verdict.WARNED: "⚠️",
    Verdict.WAIVED: "🏳️",
    Verdict.NOT_APPLICABLE: "\u2796",
    Verdict.INCONCLUSIVE: "❔",
    Verdict.ERROR: "💥",
}
_SPECIAL = re.compile(r"[\\`*_~\[\]#|<>&@$]|:(?=\S)|\bwww\.", re.IGNORECASE)


def render(report: Report) -> str:
    """The summary. What does not fit is counted, never dropped in silence."""
    head = "\n".join(_head(report)) + "\n"
    rows = view.attention(report)
    closing = f"\nRun {escape(report.run.id)}, {escape(report.suite.name)} {escape(report.suite.version)}.\n"
    room = MAX_BYTES - len(head.encode()) - len(closing.encode()) - 500
    parts: list[str] = []
    for index, result in enumerate(rows):
        block = _block(result)
        room -= len(block.encode())
        if room < 0:
            parts.append(f"\n**{len(rows) - index} more requirements need attention; see the full report.**\n")
            break
        parts.append(block)
    return head + ("\n### What needs attention\n" if rows else "") + "".join(parts) + closing


def escape(text: str, limit: int = NAME_LIMIT) -> str:
    """One line of ``text`` with every character that means something to GitHub's Markdown as an HTML entity."""
    return _SPECIAL.sub(lambda m: "".join(f"&#{ord(c)};" for c in m.group()), one_line(text, limit))


def _head(report: Report) -> Iterator[str]:
    yield f"## {_SIGN[report.verdict]} GPU conformance: {view.OVERALL[report.verdict]}"
    yield ""
    warning = view.banner(report.target)
    if warning:
        yield "> [!WARNING]"
        yield f"> **{escape(warning, 1_000)}**"
        yield ""
    facts = [view.TARGET_NAME[report.target.kind], f"Kubernetes {escape(report.target.kubernetes_version) or 'unknown'}"]
    yield f"{', '.join(facts)} · exit code **{report.exit_code}** ({view.exit_meaning(report.exit_code)})"
    if report.residue:
        yield ""
        yield f"> [!CAUTION]\n> {len(report.residue)} objects were left behind; run gpu-conformance cleanup."
    yield ""
    yield "| Area | " + " | ".join(f"{_SIGN[v]} {view.WORD[v]}" for v in Verdict) + " | judged / total |"
    yield "|---|" + "---:|" * (len(Verdict) + 1)
    areas = view.areas(report)
    for area in areas[:100]:
        cells = " | ".join(str(area.counts[v]) for v in Verdict)
        yield f"| {escape(area.area, 80)} | {cells} | {area.judged} / {area.total} |"
    if len(areas) > 100:
        yield f"| {len(areas) - 100} more areas |" + " |" * (len(Verdict) + 1)
    counts = view.counts(report)
    cells = " | ".join(f"**{counts[v]}**" for v in Verdict)
    yield f"| **All** | {cells} | {sum(a.judged for a in areas)} / {sum(a.total for a in areas)} |"


def _block(result: Result) -> str:
    lines = [
        "",
        f"<details><summary>{_SIGN[result.verdict]} <b>{escape(result.id)}</b> {result.level.value} {view.WORD[result.verdict]}: "
        f"{escape(result.title)}</summary>",
        "",
    ]
    if result.message:
        lines.append(f"{escape(result.message, 600)}\n")
    troubled = view.troubled(result)
    lines += [f"- {escape(view.subject_sentence(subject, 200), 800)}" for subject in troubled[:MAX_SUBJECTS]]
    if len(troubled) > MAX_SUBJECTS:
        lines.append(f"- and {len(troubled) - MAX_SUBJECTS} more")
    if result.remediation:
        lines.append(f"\n**What to do:** {escape(result.remediation, 600)}")
    return "\n".join([*lines, "", "</details>", ""])
