"""Markdown for a GitHub step summary or a pull-request comment, below 64 kB whatever the run held.

Text from the cluster is escaped so that it cannot form markup, links, images, HTML, table cells, issue references
or mentions. GitHub drops a step's whole summary when it is larger than 1 MiB, what other commands of the step wrote included.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from fixtures.verdict.chaos_record import ChaosReport, ChaosResult
from fixtures.verdict.record import Report, TargetKind, Verdict
from reports import chaos_phrases, phrases
from reports.causes import Found, found_causes, need_words
from reports.safe_text import NAME_LIMIT, one_line
from reports.verdicts import DISPLAY, WORD

MAX_BYTES = 64_000
MAX_SUBJECTS = 3
MAX_SYMPTOMS = 20
MAX_EXPERIMENT_BYTES = 16_000

_SPECIAL = re.compile(r"[\\`*_~\[\]#|<>&@$]|:(?=\S)|\bwww\.", re.IGNORECASE)

MAX_STEP_BYTES = 1 << 20
_LEAST = 1_000
"""Bytes below which a summary would be cut to nothing."""


def render(report: Report, chaos: ChaosReport | None = None, *, max_bytes: int = MAX_BYTES) -> str:
    """The summary, in at most ``max_bytes`` (from 1,000 on). What does not fit is counted, never dropped in silence."""
    head = "\n".join(_head(report, chaos)) + "\n"
    held = chaos_phrases.attention(chaos.experiments) if chaos else []
    rows = [*((_experiment(r), "experiments") for r in held), *((_block(one), "causes") for one in found_causes(report))]
    behind = "".join(f"{line}\n" for line in _behind(report, chaos))
    if len(behind.encode()) > max_bytes // 4:
        behind = cut_lines(behind, max_bytes // 4)
    closing = f"{behind}\nRun {escape(report.run.id, 60)}, {escape(report.suite.name, 40)} {escape(report.suite.version, 40)}.\n"
    room = max_bytes - len(closing.encode()) - 500
    if len(head.encode()) > room:
        return cut_lines(head, room + 400) + closing
    room -= len(head.encode())
    parts: list[str] = []
    for index, (block, _) in enumerate(rows):
        room -= len(block.encode())
        if room < 0:
            left = [kind for _, kind in rows[index:]]
            wording = " and ".join(f"{left.count(kind)} more {kind}" for kind in dict.fromkeys(left))
            parts.append(f"\n**{wording} need attention; see the full report.**\n")
            break
        parts.append(block)
    return head + ("\n### What needs attention\n" if rows else "") + "".join(parts) + closing


def cut_lines(text: str, room: int) -> str:
    """The first lines of ``text`` that fit, and how many do not."""
    lines = text.splitlines(keepends=True)
    kept = 0
    while kept < len(lines) and (room := room - len(lines[kept].encode())) >= 0:
        kept += 1
    return "".join(lines[:kept]) + f"\n**{len(lines) - kept} more lines do not fit here; see the full report.**\n"


def escape(text: str, limit: int = NAME_LIMIT) -> str:
    """One line of ``text`` with every character that means something to GitHub's Markdown as an HTML entity."""
    return _entities(one_line(text, limit))


def _entities(text: str) -> str:
    return _SPECIAL.sub(lambda m: "".join(f"&#{ord(c)};" for c in m.group()), text)


def _commands(text: str, limit: int) -> str:
    """``text`` with what stands between backticks as code, which holds no markup, and all else escaped."""
    parts = one_line(text, limit).split("`")
    if len(parts) % 2 == 0:  # one backtick has no partner: none of them is trusted
        return escape(text, limit)
    return "".join(f"`{part}`" if index % 2 and part.strip() else _entities(part) for index, part in enumerate(parts))


def _head(report: Report, chaos: ChaosReport | None) -> Iterator[str]:
    subject = "GPU chaos" if chaos_phrases.only_chaos(report, chaos) else "GPU conformance"
    yield f"## {DISPLAY[report.verdict].emoji} {subject}: {chaos_phrases.overall(report, chaos)}"
    yield ""
    warning = phrases.banner(report.target)
    if warning:
        yield "> [!WARNING]"
        yield f"> **{escape(warning, 1_000)}**"
        yield ""
    facts = [phrases.target_name(report.target), f"Kubernetes {escape(report.target.kubernetes_version) or 'unknown'}"]
    yield f"{', '.join(facts)} · exit code **{report.exit_code}** ({escape(chaos_phrases.exit_meaning(report, chaos), 600)})"
    if words := need_words(report):
        yield ""
        yield f"**{words}**"
    if not chaos_phrases.only_chaos(report, chaos):
        yield ""
        yield f"**Scope:** {escape(phrases.scope_words(report), 2_000)}"
        for text in phrases.shortfalls(report)[:20]:
            yield ""
            yield f"> [!CAUTION]\n> Not judged: {escape(text, 600)}"
        for blocker in phrases.blockers(report):
            for text in blocker.sentences[:20]:
                yield ""
                yield f"> [!CAUTION]\n> {blocker.title}: {escape(text, 600)}"
        for text in phrases.notes(report)[:20]:
            yield ""
            yield f"> [!NOTE]\n> {escape(text, 600)}"
    if report.residue:
        yield ""
        yield f"> [!CAUTION]\n> {len(report.residue)} objects were left behind; run {chaos_phrases.residue_advice(chaos)}."
    if chaos:
        yield ""
        yield from _experiments(chaos)


def _behind(report: Report, chaos: ChaosReport | None) -> Iterator[str]:
    """What stands behind the causes."""
    if not chaos_phrases.only_chaos(report, chaos):
        yield ""
        yield from _areas(report)
    for name, text in (("Presets", "; ".join(phrases.presets(report))), ("Judged by", phrases.tables(report))):
        if text:
            yield ""
            yield f"**{name}:** {escape(text, 1_500)}"


def _areas(report: Report) -> Iterator[str]:
    yield "| Area | " + " | ".join(f"{DISPLAY[v].emoji} {WORD[v]}" for v in Verdict) + " | judged / total |"
    yield "|---|" + "---:|" * (len(Verdict) + 1)
    areas = phrases.areas(report)
    for area in areas[:100]:
        cells = " | ".join(str(area.counts[v]) for v in Verdict)
        yield f"| {escape(area.area, 80)} | {cells} | {area.judged} / {area.total} |"
    if len(areas) > 100:
        yield f"| {len(areas) - 100} more areas |" + " |" * (len(Verdict) + 1)
    counts = phrases.counts(report)
    cells = " | ".join(f"**{counts[v]}**" for v in Verdict)
    yield f"| **All** | {cells} | {sum(a.judged for a in areas)} / {sum(a.total for a in areas)} |"


def _experiments(chaos: ChaosReport) -> Iterator[str]:
    """The table of experiments, as many as there is room for."""
    yield f"**Chaos:** {escape(chaos_phrases.tally_words(chaos), 2_000)}"
    if not chaos.experiments:
        return
    yield ""
    yield "| Experiment | level | fidelity | verdict | detected, s | recovered, s | target |"
    yield "|---|---|---|---|---:|---:|---|"
    room = MAX_EXPERIMENT_BYTES
    for index, result in enumerate(chaos.experiments):
        detection = chaos_phrases.detection(result)
        row = (
            f"| **{escape(result.id, 40)}** {escape(result.title, 120)} | {chaos_phrases.level_words(result)} "
            f"| {_mark(result)} | {DISPLAY[result.verdict].emoji} {WORD[result.verdict]} "
            f"| {detection.words() if detection else ''} | {chaos_phrases.recovery_cell(result)} "
            f"| {escape(chaos_phrases.targets(result, 80), 200)} |"
        )
        room -= len(row.encode())
        if room < 0:
            yield f"| {len(chaos.experiments) - index} more experiments | | | | | | |"
            return
        yield row


def _mark(result: ChaosResult) -> str:
    word = escape(chaos_phrases.fidelity(result, 40))
    return word if not word or result.target_kind is TargetKind.LIVE else f"⚠️ {word}"


def _experiment(result: ChaosResult) -> str:
    lines = [
        "",
        f"<details><summary>{DISPLAY[result.verdict].emoji} <b>{escape(result.id)}</b> {chaos_phrases.level_words(result)} "
        f"{WORD[result.verdict]}: {escape(result.title)}</summary>",
        "",
    ]
    wording = [escape(part, 600) for part in (chaos_phrases.reason(result), result.message) if part]
    lines += [": ".join(wording) + "\n"] if wording else []
    lines += [f"- {escape(line, 600)}" for line in chaos_phrases.details(result, MAX_SUBJECTS)[:20]]
    return "\n".join([*lines, "", "</details>", ""])


def _block(found: Found) -> str:
    """A cause, folded: what was found, what to do, and the requirements that show it."""
    names = ", ".join(escape(result.id, 40) for result in found.requirements[:MAX_SYMPTOMS])
    more = f" and {len(found.requirements) - MAX_SYMPTOMS} more" if len(found.requirements) > MAX_SYMPTOMS else ""
    lines = [
        "",
        f"<details><summary>{DISPLAY[found.verdict].emoji} <b>{escape(found.title)}</b> "
        f"({found.level.value} {WORD[found.verdict]}: {names}{more})</summary>",
        "",
    ]
    for fact in found.facts:
        lines += [escape(fact, 600), ""]
    sentences = found.sentences(200)
    lines += [f"- {escape(sentence, 800)}" for sentence in sentences[: found.most_shown]]
    if len(sentences) > found.most_shown:
        lines.append(f"- and {len(sentences) - found.most_shown} more")
    if found.advice:
        lines.append(f"\n**What to do:** {_commands(found.advice, 600)}")
    for command in found.commands:
        what = f"This changes the cluster, {escape(command.does, 200)}:" if command.does else "Read first:"
        lines.append(f"\n{what} {_commands(f'`{command.lines[0]}`', 600)}")
    return "\n".join([*lines, "", "</details>", ""])


def append_to_step(report: Report, chaos: ChaosReport | None, environ: Mapping[str, str]) -> str:
    """Add the summary of a run, where GitHub Actions asks for one. Returns what kept it out, as one sentence; "" otherwise."""
    name = environ.get("GITHUB_STEP_SUMMARY", "")
    if environ.get("GITHUB_ACTIONS") != "true" or not name:
        return ""
    path = Path(name)
    try:
        before = path.stat().st_size if path.exists() else 0
        room = MAX_STEP_BYTES - before - 2
        if room < _LEAST:
            text = f"{chaos_phrases.overall(report, chaos)}; see the log of this step, its summary is full.\n"
            if len(text.encode()) > room:
                return f"GITHUB_STEP_SUMMARY has {before} bytes already, and GitHub drops more than {MAX_STEP_BYTES}: no summary was added"
        else:
            text = render(report, chaos, max_bytes=min(room, MAX_BYTES))
        with path.open("ab") as file:
            file.write(b"\n\n" if before else b"")
            file.write(text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        return f"GITHUB_STEP_SUMMARY: {error.strerror or error}"
    return ""
