"""Tells a webhook that a cluster's verdict changed, or that a cause came or went, since the run before: as JSON, or as Slack takes it.

The URL is a credential. It comes from a file, is sent to its own host alone, and is never shown.
"""

from enum import StrEnum
from pathlib import Path

import msgspec

from conformance.delivery import files
from conformance.delivery.outcome import DeliveryError
from fixtures.text.sentences import listed
from fixtures.verdict.record import Record, Verdict
from reports.merge import history
from reports.merge.history import CauseMet
from reports.safe_text import one_line, redact
from reports.verdicts import WORD

MAX_CAUSES, MAX_NODES = 20, 20
_SLACK = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""What means something to Slack: a tenant's name must call nobody."""


class Form(StrEnum):
    """What a webhook takes."""

    JSON = "json"
    SLACK = "slack"


class Hook(msgspec.Struct, frozen=True):
    """A webhook, whose URL is in ``file``."""

    form: Form
    file: Path


class Change(Record, kw_only=True):
    """What changed since the run before. ``before`` is None where there was none; causes and nodes are at most 20 each."""

    run_id: str
    started_at: str
    cluster: str
    cluster_uid: str
    simulated: bool
    before: Verdict | None
    now: Verdict
    came: list[CauseMet]
    gone: list[CauseMet]


def parse(text: str) -> Hook:
    """Read ``FORM=FILE``. Raises ValueError with one line."""
    form, _, file = text.partition("=")
    if form not in list(Form) or not Path(file).is_absolute():
        raise ValueError(f"{text!r} is no webhook; expected json=FILE or slack=FILE with an absolute path")
    return Hook(Form(form), Path(file))


def change(volume: Path, run_id: str) -> Change | None:
    """What a run changed against the one before it of the same cluster; None if it changed nothing. Raises :class:`ReportError`.

    A run about some nodes (``--nodes``) may bring a cause, ends none, and is no run before.
    """
    entries = history.read(volume).entries
    now = next((entry for entry in entries if entry.run_id == run_id), None)
    if now is None:
        return None
    earlier = [one for one in entries[: entries.index(now)] if one.whose == now.whose and not one.about]
    before = earlier[-1] if earlier else None
    known = before.causes if before else []
    came, gone = _only_in(now.causes, known), _only_in(known, now.causes)
    judged = set() if now.about else set(now.judged)
    gone = [cause for cause in gone if judged & set(cause.requirements)]  # of what was not judged nothing is known
    if not came and not gone and (now.about or (now.verdict is before.verdict if before else now.exit_code == 0)):
        return None
    return Change(
        run_id=now.run_id,
        started_at=now.started_at,
        cluster=now.cluster,
        cluster_uid=now.cluster_uid,
        simulated=now.simulated,
        before=before.verdict if before else None,
        now=now.verdict,
        came=came[:MAX_CAUSES],
        gone=gone[:MAX_CAUSES],
    )


def _only_in(causes: list[CauseMet], others: list[CauseMet]) -> list[CauseMet]:
    keys = {cause.key for cause in others}
    return [msgspec.structs.replace(cause, nodes=cause.nodes[:MAX_NODES]) for cause in causes if cause.key not in keys]


def body(found: Change, form: Form) -> bytes:
    """What is sent."""
    if form is Form.JSON:
        return redact(msgspec.json.encode({"gpuConformance": found}).decode()).encode()
    return msgspec.json.encode({"text": redact(text(found)).translate(_SLACK)})


def text(found: Change) -> str:
    """A few lines for people."""
    before = WORD[found.before] if found.before else "not judged"
    mark = "SIMULATED, no result of a real cluster: " if found.simulated else ""
    lines = [f"{mark}GPU conformance of {one_line(found.cluster, 120)}: {before} before, {WORD[found.now]} now (run {found.run_id})"]
    for sign, causes in (("new", found.came), ("gone", found.gone)):
        for cause in causes:
            where = f" on {listed(cause.nodes, 5)}" if cause.nodes else ""
            lines.append(f"{sign}: {one_line(cause.title, 300)} ({', '.join(cause.requirements[:5])}){where}")
    return "\n".join(lines)


def send(hook: Hook, found: Change) -> str:
    """Send it once; nothing is retried, and no redirect is followed. Raises :class:`DeliveryError`."""
    try:
        return f"webhook {files.send('POST', hook.file, body(found, hook.form), 'application/json', seconds=30.0)}"
    except OSError as error:
        raise DeliveryError(f"webhook {hook.file}: {error.strerror or error}") from error
