"""What to do about what was found: the advice of its causes as prose and commands, and the commands with the names of what is wrong.

Commands stand between backticks in a text. The words ``NODE``, ``NAMESPACE``, ``NAME``, ``POD`` and ``KIND`` in them stand for
the subjects, and ``v1.NN`` for the cluster's minor version. Names come from a cluster and may be hostile: only what Kubernetes could
accept as a name gets into a command, and it is quoted for a shell all the same.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from fixtures.verdict.record import FindingCause, Report, Result, SubjectResult, Verdict
from reports.phrases import troubled

MAX_COMMANDS = 8
"""Filled commands of one template."""

MAX_NAMES = 40
"""Nodes that one command names."""

_CODE = re.compile(r"`([^`\n]{1,500})`")
_PLACE = re.compile(r"\b(NODE|NAMESPACE|NAME|POD|KIND)\b|v1\.NN\b")
_PLAIN = re.compile(r"(?:kubectl|gpu-conformance show) [^;|&$<>()\\!#]+")
"""What is offered with names in it: one command that reads or changes objects, without anything that a shell reads as more than words."""

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._:-]{0,251}[A-Za-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{1,62}")
_MINOR = re.compile(r"v?(1\.\d{1,3})\b")
_RESOURCE = re.compile(r"([a-z]+)[ /]NAME\b")
_NOT_OBJECTS = {"Agent", "Cluster", "Device", "GangScheduler", "Operator", "Request", "Requirement", "Resource"}
"""Kinds of subjects that are words of the suite and no kinds of Kubernetes."""

_SHORT = {"VolcanoJob": "vcjob", "Queue": "queue.scheduling.volcano.sh"}
"""Kinds whose word in findings is not the one that kubectl knows, or means something else to it."""

_NAMESPACE = "-n NAMESPACE "

_ONE_BY_ONE = re.compile(r" drain |jsonpath=|^gpu-conformance ")
"""kubectl takes several nodes, but draining all at once empties a pool, and a path into one object finds nothing in a list."""

_SHORT_OF = {"ds": "daemonset", "deploy": "deployment", "sts": "statefulset"}


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """One command as ``lines`` to copy. ``more`` subjects need the same command and are not among them.

    ``does`` says what it changes; empty for a command that only reads.
    """

    lines: list[str]
    more: int = 0
    does: str = ""


def parts(advice: str) -> list[tuple[str, bool]]:
    """The text in pieces, each with whether it is a command."""
    found, at = [], 0
    for match in _CODE.finditer(advice):
        found += [(advice[at : match.start()], False), (match.group(1), True)]
        at = match.end()
    found.append((advice[at:], False))
    return [piece for piece in found if piece[0]]


def commands(report: Report, result: Result) -> list[Commands]:
    """The commands of the result's causes that name what is wrong: those that only read first."""
    by_cause: dict[str, list[SubjectResult]] = {}
    for one in troubled(result):
        if one.verdict is not Verdict.WAIVED:
            by_cause.setdefault(one.cause, []).append(one)
    found = [one for cause in report.causes for one in of_cause(report, cause, by_cause.get(cause.code, ()))]
    return sorted(found, key=lambda one: bool(one.does))


def of_cause(report: Report, cause: FindingCause, subjects: Iterable[SubjectResult]) -> list[Commands]:
    """The commands of a cause with the names of subjects."""
    subjects = list(subjects)
    reading = _filled(report, cause.look, subjects)
    changing = [
        msgspec.structs.replace(one, does=change.does) for change in cause.changes for one in _filled(report, [change.run], subjects)
    ]
    return reading + changing


def _filled(report: Report, templates: Iterable[str], subjects: Iterable[SubjectResult]) -> list[Commands]:
    version = _MINOR.match(report.target.kubernetes_version)
    known = {"v1.NN": f"v{version.group(1)}"} if version else {}
    values = [one for subject in subjects for one in _values(subject)]
    made = (_fill(text, values, known) if _PLACE.search(text) else Commands(lines=[text]) for text in templates if _is_plain(text))
    return [one for one in made if one.lines]


def _is_plain(command: str) -> bool:
    """Whether a shell reads it as one command that may be offered, with all its quotes closed."""
    try:
        return bool(_PLAIN.fullmatch(command) and shlex.split(command))
    except ValueError:
        return False


def _values(subject: SubjectResult) -> Iterator[dict[str, str]]:
    """What a subject says of each placeholder; nothing for one whose name Kubernetes could not have accepted."""
    name, _, rest = subject.name.partition(" ")  # "h100-0 nvidia.com/gpu" is a part of h100-0
    if rest.startswith("of ") or not _NAME.fullmatch(name) or (subject.namespace and not _NAME.fullmatch(subject.namespace)):
        return
    found = {"NAME": name}
    if subject.namespace:
        found["NAMESPACE"] = subject.namespace
    if _KIND.fullmatch(subject.kind) and subject.kind not in _NOT_OBJECTS:
        found["KIND"] = _SHORT.get(subject.kind, subject.kind.lower())
    if subject.kind.lower() == "node":
        found["NODE"] = name
    elif subject.kind.lower() == "namespace":
        found["NAMESPACE"] = name
    elif subject.kind.lower() == "pod":
        found["POD"] = name
    elif subject.kind == "Agent" and rest.startswith("on ") and _NAME.fullmatch(node := rest.removeprefix("on ")):
        found["NODE"] = node
    yield found


def _fill(template: str, subjects: Iterable[Mapping[str, str]], known: Mapping[str, str]) -> Commands:
    subjects = list(subjects)
    if _NAMESPACE in template and "KIND" in template:  # what has no namespace is reached without one
        outside = _fill(template.replace(_NAMESPACE, ""), [one for one in subjects if "NAMESPACE" not in one], known)
    else:
        outside = Commands(lines=[])
    words = template.split(" ")
    needed = {match.group() for match in _PLACE.finditer(template)} - {"v1.NN"}
    resource = _RESOURCE.search(template)  # "ds/NAME" is about a DaemonSet, whatever else is wrong
    kind = _SHORT_OF.get(resource.group(1), resource.group(1)) if resource else ""
    fitting = [values for values in subjects if needed <= values.keys() and kind in ("", values.get("KIND"))]
    if needed == {"NODE"} and "NODE" in words and not _ONE_BY_ONE.search(template):
        names = list(dict.fromkeys(values["NODE"] for values in fitting))
        chunks = [names[at : at + MAX_NAMES] for at in range(0, len(names), MAX_NAMES)]
        lines = [
            " ".join(" ".join(map(shlex.quote, chunk)) if word == "NODE" else _word(word, known) for word in words) for chunk in chunks
        ]
        return Commands(lines=lines[:MAX_COMMANDS], more=max(len(names) - MAX_COMMANDS * MAX_NAMES, 0))
    lines = list(dict.fromkeys(" ".join(_word(word, {**known, **values}) for word in words) for values in fitting))
    lines += outside.lines
    return Commands(lines=lines[:MAX_COMMANDS], more=max(len(lines) - MAX_COMMANDS, 0) + outside.more)


def _word(word: str, values: Mapping[str, str]) -> str:
    """A word of the template with its placeholders filled. Words that have none stay as the catalogue has them."""
    return _PLACE.sub(lambda match: shlex.quote(values.get(match.group(), match.group())), word)
