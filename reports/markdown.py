"""Markdown for a GitHub step summary or a pull-request comment, below 64 kB whatever the run held.

Text from the cluster is escaped so that it cannot form markup, links, images, HTML, table cells, issue references
or mentions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fixtures.chaos_record import ChaosReport, ChaosResult
from fixtures.record import Report, Result, TargetKind, Verdict
from reports import experiments, view
from reports.text import NAME_LIMIT, one_line

MAX_BYTES = 64_000
MAX_SUBJECTS = 3
MAX_EXPERIMENT_BYTES = 16_000

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


def render(report: Report, chaos: ChaosReport | None = None) -> str:
    """The summary. What does not fit is counted, never dropped in silence."""
    head = "\n".join(_head(report, chaos)) + "\n"
    held = experiments.attention(chaos.experiments) if chaos else []
    rows = [*((_experiment(r), "experiments") for r in held), *((_block(r), "requirements") for r in view.attention(report))]
    closing = f"\nRun {escape(report.run.id)}, {escape(report.suite.name)} {escape(report.suite.version)}.\n"
    room = MAX_BYTES - len(head.encode()) - len(closing.encode()) - 500
    parts: list[str] = []
    for index, (block, _) in enumerate(rows):
        room -= len(block.encode())
        if room < 0:
            left = [kind for _, kind in rows[index:]]
            told = " and ".join(f"{left.count(kind)} more {kind}" for kind in dict.fromkeys(left))
            parts.append(f"\n**{told} need attention; see the full report.**\n")
            break
        parts.append(block)
    return head + ("\n### What needs attention\n" if rows else "") + "".join(parts) + closing


def escape(text: str, limit: int = NAME_LIMIT) -> str:
    """One line of ``text`` with every character that means something to GitHub's Markdown as an HTML entity."""
    return _SPECIAL.sub(lambda m: "".join(f"&#{ord(c)};" for c in m.group()), one_line(text, limit))


def _head(report: Report, chaos: ChaosReport | None) -> Iterator[str]:
    subject = "GPU chaos" if experiments.only_chaos(report, chaos) else "GPU conformance"
    yield f"## {_SIGN[report.verdict]} {subject}: {experiments.overall(report, chaos)}"
    yield ""
    warning = view.banner(report.target)
    if warning:
        yield "> [!WARNING]"
        yield f"> **{escape(warning, 1_000)}**"
        yield ""
    facts = [view.TARGET_NAME[report.target.kind], f"Kubernetes {escape(report.target.kubernetes_version) or 'unknown'}"]
    yield f"{', '.join(facts)} · exit code **{report.exit_code}** ({escape(experiments.exit_meaning(report, chaos), 600)})"
    if not experiments.only_chaos(report, chaos):
        yield ""
        yield f"**Scope:** {escape(view.scope_words(report), 2_000)}"
        for text in view.shortfalls(report)[:20]:
            yield ""
            yield f"> [!CAUTION]\n> Not judged: {escape(text, 600)}"
        for text in report.regressions[:20]:
            yield ""
            yield f"> [!CAUTION]\n> Worse than the baseline: {escape(text, 600)}"
        for text in view.notes(report)[:20]:
            yield ""
            yield f"> [!NOTE]\n> {escape(text, 600)}"
    if report.residue:
        yield ""
        yield f"> [!CAUTION]\n> {len(report.residue)} objects were left behind; run {experiments.residue_advice(chaos)}."
    if chaos:
        yield ""
        yield from _experiments(chaos)
    if not experiments.only_chaos(report, chaos):
        yield ""
        yield from _areas(report)


def _areas(report: Report) -> Iterator[str]:
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


def _experiments(chaos: ChaosReport) -> Iterator[str]:
    """The table of experiments, as many as there is room for."""
    yield f"**Chaos:** {escape(experiments.tally_words(chaos), 2_000)}"
    if not chaos.experiments:
        return
    yield ""
    yield "| Experiment | level | fidelity | verdict | detected, s | recovered, s | target |"
    yield "|---|---|---|---|---:|---:|---|"
    room = MAX_EXPERIMENT_BYTES
    for index, result in enumerate(chaos.experiments):
        detection = experiments.detection(result)
        row = (
            f"| **{escape(result.id, 40)}** {escape(result.title, 120)} | {experiments.level_words(result)} "
            f"| {_mark(result)} | {_SIGN[result.verdict]} {view.WORD[result.verdict]} "
            f"| {detection.words() if detection else ''} | {experiments.recovery_cell(result)} "
            f"| {escape(experiments.targets(result, 80), 200)} |"
        )
        room -= len(row.encode())
        if room < 0:
            yield f"| {len(chaos.experiments) - index} more experiments | | | | | | |"
            return
        yield row


def _mark(result: ChaosResult) -> str:
    word = escape(experiments.fidelity(result, 40))
    return word if not word or result.target_kind is TargetKind.LIVE else f"⚠️ {word}"


def _experiment(result: ChaosResult) -> str:
    lines = [
        "",
        f"<details><summary>{_SIGN[result.verdict]} <b>{escape(result.id)}</b> {experiments.level_words(result)} "
        f"{view.WORD[result.verdict]}: {escape(result.title)}</summary>",
        "",
    ]
    told = [escape(part, 600) for part in (experiments.reason(result), result.message) if part]
    lines += [": ".join(told) + "\n"] if told else []
    lines += [f"- {escape(line, 600)}" for line in experiments.details(result, MAX_SUBJECTS)[:20]]
    return "\n".join([*lines, "", "</details>", ""])


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
