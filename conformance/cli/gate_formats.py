"""The gate's decision for other readers: a comment of a pull request, programs, and CI systems that read JUnit."""

import json
import xml.etree.ElementTree as ET
from collections import Counter

import msgspec

from reports.diff import runs
from reports.diff.gate import Decision, GateCode, headline, render
from reports.diff.runs import AnyChange, Side
from reports.formats.markdown import cut_lines, escape
from reports.safe_text import NAME_LIMIT, one_line, xml_legal
from reports.verdicts import DISPLAY

FORMATS = ("text", "md", "json", "junit")
SCHEMA_VERSION = "1.0"
MAX_REASONS, MAX_CHANGES = 30, 60
MAX_BYTES = 30_000
"""Of the reasons and of the changes each, in a comment, of which GitHub takes 65,536 characters."""


def written(decision: Decision, kind: str) -> str:
    """The decision in one of :data:`FORMATS`."""
    return {"text": render, "md": to_markdown, "json": to_json, "junit": to_junit}[kind](decision)


def to_markdown(decision: Decision) -> str:
    """A comment: the decision, both runs, why, what changed, and what the signs mean."""
    difference = decision.difference
    sign = "✅" if decision.code is GateCode.OPEN else "❌"
    lines = [f"## {sign} {escape(headline(decision))}", "", "| | before | after |", "|---|---|---|"]
    for name in ("run", "target", "kubernetes_version", "headline", "scope"):
        values = (escape(getattr(side, name), 400) for side in (difference.old, difference.new))
        lines.append(f"| {name.replace('_version', '').replace('_', ' ')} | {' | '.join(values)} |")
    if decision.reasons:
        lines += ["", "### Why it is closed", ""]
        lines += [f"- {escape(reason, 600)}" for reason in decision.reasons[:MAX_REASONS]]
        lines += _more(len(decision.reasons) - MAX_REASONS, "reasons")
    text = _cut(lines)
    changes = sorted(difference.every, key=lambda change: not change.gating)
    if changes:
        counts = Counter(change.bucket.value for change in changes)
        counted = ", ".join(f"{count} {escape(bucket)}" for bucket, count in counts.items())
        rows = [f"| {'❌' if one.gating else ''} | {escape(runs.sentence(one), 500)} |" for one in changes[:MAX_CHANGES]]
        table = _cut(["| | change |", "|---|---|", *rows, "", *_more(len(changes) - MAX_CHANGES, "changes")])
        text += f"\n<details><summary>What changed: {counted}</summary>\n\n{table}\n</details>\n"
    words = ", ".join(f"{shown.emoji} {shown.word}" for shown in DISPLAY.values())
    return f"{text}\n<sub>❌ closes the gate. {words}. Exit codes: 0 open, 1 worse, 10 not known, 11 residue.</sub>\n"


def _cut(lines: list[str]) -> str:
    text = "\n".join(lines) + "\n"
    return text if len(text.encode()) <= MAX_BYTES else cut_lines(text, MAX_BYTES)


def _more(count: int, what: str) -> list[str]:
    return [f"- **{count} more {what}; see the report of the later run.**"] if count > 0 else []


def to_json(decision: Decision) -> str:
    """Everything, as one document in ASCII."""
    difference = decision.difference
    document = {
        "schemaVersion": SCHEMA_VERSION,
        "open": decision.code is GateCode.OPEN,
        "exitCode": int(decision.code),
        "headline": headline(decision),
        "reasons": [one_line(reason, 600) for reason in decision.reasons],
        "before": _side(difference.old),
        "after": _side(difference.new),
        "changes": [_change(one) for one in difference.every],
    }
    return json.dumps(document, indent=1) + "\n"


def _side(side: Side) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(side)
    return {key: one_line(value, 2_000) if isinstance(value, str) else value for key, value in found.items()}


def _change(one: AnyChange) -> dict[str, object]:
    verdicts = {name: getattr(one, name).value if getattr(one, name) else None for name in ("old", "new")}
    return {"bucket": one.bucket.value, "gating": one.gating, **verdicts, "sentence": runs.sentence(one)}


def to_junit(decision: Decision) -> str:
    """A case for each reason that closes the gate, else one that passes. What is not known is an error, not a failure."""
    kind = "error" if decision.code is GateCode.NOT_KNOWN else "failure"
    count = str(len(decision.reasons))
    numbers = {"tests": count if decision.reasons else "1", "failures": "0", "errors": "0", f"{kind}s": count}
    root = ET.Element("testsuites", {"name": "gpu-conformance gate", **numbers})
    suite = ET.SubElement(root, "testsuite", {"name": "gpu-conformance gate", **numbers})
    for reason in decision.reasons:
        case = ET.SubElement(suite, "testcase", classname="gpu-conformance.gate", name=xml_legal(one_line(reason, NAME_LIMIT)), time="0")
        ET.SubElement(case, kind, message=xml_legal(one_line(reason, 1_000)), type="gate")
    if not decision.reasons:
        ET.SubElement(suite, "testcase", classname="gpu-conformance.gate", name="nothing is worse than before", time="0")
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
