"""All causes of findings: the ``causes.yaml`` of every area folder and of this one, checked when they are read.

What to do belongs to a cause and never to a requirement: one requirement finds a node in repair and one that its owner
forgot, and what mends the second harms the first.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import yaml

from fixtures.text import yaml_text
from fixtures.verdict.findings import NOT_UNDERSTOOD
from fixtures.verdict.record import Change, FindingCause, Remedy

FOLDER = Path(__file__).parent
MAX_TITLE = 110
_CODE = re.compile(r"[A-Z][A-Za-z0-9]{2,40}")
_READS = re.compile(
    r"(?:kubectl (?:-n \S+ )?(?:get|describe|logs|top|events|explain|version|api-resources|auth can-i|rollout (?:status|history))\b"
    r"|gpu-conformance (?:explain|doctor|show|list|inspect|cleanup .*--dry-run)\b)[^;|&$<>()`\n]*"
)


class CauseError(Exception):
    """A file of causes is malformed. One line naming file and code."""


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A cause as its file has it: the code is the key."""

    title: str
    remedy: Remedy
    advice: str
    look: list[str] = []
    changes: "list[_Change]" = []
    symptom_of: list[str] = []
    blames_node: bool = False


class _Change(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    run: str
    does: str


def is_reading(command: str) -> bool:
    """Whether a command only reads."""
    return bool(_READS.fullmatch(command))


@functools.cache  # files of the package
def load_causes(folder: Path = FOLDER) -> dict[str, FindingCause]:
    """Every cause by its code. Raises :class:`CauseError`."""
    found: dict[str, FindingCause] = {}
    for path in (folder / "causes.yaml", *sorted(folder.glob("*/causes.yaml"))):
        for cause in _load(path) if path.exists() else ():
            if cause.code in found:
                raise CauseError(f"{path.parent.name}/{path.name}: {cause.code} stands in two files")
            found[cause.code] = cause
    for cause in found.values():
        if unknown := [code for code in cause.symptom_of if code not in found or code == cause.code]:
            raise CauseError(f"{cause.code} is a symptom of {unknown[0]}, which is no other cause")
    return found


def _load(path: Path) -> Iterator[FindingCause]:
    where = f"{path.parent.name}/{path.name}"
    try:
        entries = yaml_text.packaged(path, dict[str, _Entry])
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise CauseError(f"{where}: {error}") from error
    for code, entry in entries.items():
        cause = FindingCause(
            code=code,
            title=entry.title,
            remedy=entry.remedy,
            advice=" ".join(entry.advice.split()),
            look=entry.look,
            changes=[Change(run=change.run, does=change.does) for change in entry.changes],
            symptom_of=entry.symptom_of,
            blames_node=entry.blames_node,
        )
        if problem := next(_problems(cause), ""):
            raise CauseError(f"{where}: {code}: {problem}")
        yield cause


def _problems(cause: FindingCause) -> Iterator[str]:
    if not _CODE.fullmatch(cause.code):
        yield "the code is not CamelCase"
    if len(cause.title) > MAX_TITLE or cause.title.endswith("."):
        yield f"the title is longer than {MAX_TITLE} characters or ends with a full stop"
    if len(cause.advice.split()) < 4 or not cause.advice.endswith("."):
        yield "the advice says too little, or ends without a full stop"
    if "`" in cause.advice or "kubectl " in cause.advice:
        yield "the advice has a command: it belongs to look or changes"
    if changing := [command for command in cause.look if not is_reading(command)]:
        yield f"look has {changing[0]!r}, which may change something"
    if reading := [change.run for change in cause.changes if is_reading(change.run)]:
        yield f"changes has {reading[0]!r}, which only reads"
    if cause.changes and cause.remedy is not Remedy.ACT:
        yield f"remedy {cause.remedy} offers nothing that changes a cluster"


_OF_REASONS = {
    "Forbidden": "RightMissing",
    "Unauthorized": "RightMissing",
    "NoUsableNode": "NoNodeForProbes",
    **dict.fromkeys(("Unschedulable", "NotStarted", "NoLog", "LogTooLarge", "NoEvidence", "CommandNotFound"), "ProbeDidNotRun"),
    **dict.fromkeys(("PodsStay", "GangStays", "GroupLinkDropped"), "ProbeDidNotRun"),
    **dict.fromkeys(
        ("ClaimsNotCounted", "ClaimsNotServed", "PodsNotManaged", "QueueNotActive", "QueueNotOpen", "QueueTooSmall"), "QueueNotUsable"
    ),
    **dict.fromkeys(("ConfigurationUnreadable", "RulesUnread", "BadPrometheus", "Unreadable"), NOT_UNDERSTOOD),
    "AnotherCluster": "AddressOfAnotherCluster",
}
_OF_THE_SERVER = "ApiTrouble"


def cause_of(reason: str) -> str:
    """The cause of a requirement that could not be judged, by its reason code. An API server words reasons as it likes."""
    return reason if reason in load_causes() else _OF_REASONS.get(reason, _OF_THE_SERVER)


def is_known(reason: str) -> bool:
    """Whether a reason code of the suite's own has a cause."""
    return reason in load_causes() or reason in _OF_REASONS


def met(codes: Iterable[str]) -> list[FindingCause]:
    """The causes of codes, each once, in their order. Raises :class:`CauseError` for a code that no file has."""
    known, found = load_causes(), dict.fromkeys(code for code in codes if code)
    if unknown := [code for code in found if code not in known]:
        raise CauseError(f"{unknown[0]} stands in no causes.yaml")
    return [known[code] for code in found]
