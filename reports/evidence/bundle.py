"""The folder ``evidence/`` of a run: what each verdict rests on, redacted, bounded, each file with its digest.

``requirements/ID.json`` has the findings and names the objects that they are about. ``objects/`` holds each object once, and its file
name ends with the start of its digest. ``outputs/`` holds what probes rest on, ``answers/`` what the cluster said beside its lists.
``index.json`` lists the files, and ``SHA256SUMS`` is for ``sha256sum -c``. What did not fit is counted in the index.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fixtures.system import private_files
from fixtures.verdict.record import Report, Result, SubjectResult
from reports import phrases
from reports.evidence.redaction import safe_answer, safe_object, safe_text
from reports.safe_text import NAME_LIMIT, one_line

NAME = "evidence"
INDEX = "index.json"
SUMS = "SHA256SUMS"
JUDGING, SNAPSHOT = "judging.json", "snapshot.json"
"""How the run judged, and the lists that it read: by these its ``read`` requirements can be judged again."""
ANSWERS = "answers"
PARTS = frozenset({INDEX, SUMS, JUDGING, SNAPSHOT, ANSWERS, "objects", "outputs", "requirements"})
SCHEMA_VERSION = "1.0"

MAX_OBJECTS = 100
"""Objects of one requirement; those that need attention come first."""
MAX_OBJECT_BYTES = 128 << 10
MAX_OUTPUTS = 40
MAX_OUTPUT_BYTES = 256 << 10
MAX_ANSWER_BYTES = 32 << 20
"""The pages of all exporters are one answer: of 300 nodes with 100 KiB each."""
MAX_BYTES = 64 << 20
"""Bytes of all objects, again of all outputs, and again of all answers."""

_MARK = b'{\n "complete": '
"""How an index begins."""

_UNSAFE_NAME = re.compile(r"[^A-Za-z0-9._-]+")

Json = dict[str, object]


class EvidenceError(Exception):
    """Evidence cannot be written. The message is one line that says where and why."""


class ListRead(msgspec.Struct, frozen=True, kw_only=True):
    """One list of the cluster as the run read it. ``digest`` is the SHA-256 of the fields that the suite reads of its objects."""

    resource: str
    objects: int
    digest: str
    trouble: str = ""


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """Where evidence comes from: ``find`` gives the API object that a subject is about, ``reads`` the lists behind a requirement.

    ``kept`` are files to keep as they are, by name. Once they are written, ``again`` says of each requirement that reads why the folder
    does not give its result again; empty where it does.
    """

    lists: list[ListRead]
    reads: Mapping[str, list[str]]
    find: Callable[[SubjectResult], Json | None]
    taken_at: str = ""
    kept: Mapping[str, bytes] = {}
    again: Callable[[Path], Mapping[str, str]] = lambda _: {}


def prepare(run_folder: Path, *, wanted: bool) -> None:
    """Remove the evidence of an earlier run, and begin that of this one. Raises :class:`EvidenceError`.

    A folder of this name that no run wrote stays, and is an error where evidence is wanted.
    """
    folder = run_folder / NAME
    try:
        if _is_evidence(folder):
            shutil.rmtree(folder)
        if not wanted:
            return
        if folder.is_symlink() or folder.exists():
            raise EvidenceError(f"{folder}: is there already and no run wrote it, or not all of it")
        for name in (ANSWERS, "objects", "outputs", "requirements"):
            private_files.make_folder(folder / name)
        private_files.write(folder / INDEX, _encoded({"schemaVersion": SCHEMA_VERSION, "complete": False}))
    except OSError as error:
        raise EvidenceError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _is_evidence(folder: Path) -> bool:
    """Whether a run wrote the folder, and nothing else is in it."""
    if folder.is_symlink() or not (folder / INDEX).is_file():
        return False
    with (folder / INDEX).open("rb") as file:
        ours = file.read(len(_MARK)) == _MARK
    return ours and {path.name for path in folder.iterdir()} <= PARTS


def write_outputs(run_folder: Path, identifier: str, outputs: Iterable[tuple[str, str | dict[str, Any]]]) -> None:
    """Keep what a probe rests on: (name, text) of what pods printed, the ends of long ones; (name, object) of pods and answers.

    Raises ``OSError``.
    """
    folder = run_folder / NAME / "outputs"
    for number, (name, text) in enumerate(outputs, start=1):
        if number > MAX_OUTPUTS:
            break
        file = f"{_file_name(identifier)}.{number:02d}.{_file_name(name)}"
        if isinstance(text, dict):
            data = _encoded(safe_object(text))
            large = {"leftOut": f"{len(data)} bytes"}
            private_files.write(folder / f"{file}.json", data if len(data) <= MAX_OBJECT_BYTES else _encoded(large))
            continue
        kept = text[-MAX_OUTPUT_BYTES:]
        head = f"[{len(text) - len(kept)} characters before this are left out]\n" if len(kept) < len(text) else ""
        data = (head + safe_text(kept, MAX_OUTPUT_BYTES) + "\n").encode("utf-8", "backslashreplace")[:MAX_OUTPUT_BYTES]
        private_files.write(folder / f"{file}.log", data)


def write_answer(run_folder: Path, question: str, answer: Json) -> None:
    """Keep what the cluster said to a question of requirements, without what looks like a credential. The first answer of a run stays.

    Raises ``OSError``.
    """
    path = run_folder / NAME / ANSWERS / f"{_file_name(question)}.{hashlib.sha256(question.encode()).hexdigest()[:8]}.json"
    size = len(_encoded(answer))
    kept = safe_answer(answer) if size <= MAX_ANSWER_BYTES else {"left_out": f"it has {size} bytes, and {MAX_ANSWER_BYTES} are kept"}
    if not path.exists():
        whole = kept == answer
        private_files.replace(path, _encoded({"question": question, "whole": whole, **kept}, sort=False))  # the order may decide a message


def write(report: Report, run_folder: Path, sources: Sources, report_file: Path | None = None) -> Path:
    """Write the evidence of all results of ``report``. Returns its folder. Raises :class:`EvidenceError`.

    :func:`prepare` was called before the run.
    """
    folder = run_folder / NAME
    try:
        return _Bundle(folder).write(report, sources, report_file)
    except OSError as error:
        raise EvidenceError(f"{folder}: cannot be written: {error.strerror or error}") from error


class _Bundle:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, Json] = {}
        self._stored: dict[tuple[str, str, str], str] = {}
        self._room = MAX_BYTES
        self._left_out = 0

    def write(self, report: Report, sources: Sources, report_file: Path | None) -> Path:
        outputs = self._outputs()
        self._kept(ANSWERS)
        requirements = [self._requirement(result, sources, outputs) for result in report.results]
        for name, data in sources.kept.items():
            private_files.write(self._folder / name, data)
            self._files[name] = _facts(data)
        again = sources.again(self._folder)
        index: Json = {
            "schemaVersion": SCHEMA_VERSION,
            "complete": True,
            "suite": {"name": one_line(report.suite.name), "version": one_line(report.suite.version)},
            "run": {"id": one_line(report.run.id), "startedAt": one_line(report.run.started_at)},
            "target": {
                "kind": report.target.kind.value,
                "real": not report.target.simulated,
                "words": phrases.banner(report.target) or phrases.target_words(report.target),
                "clusterUid": one_line(report.target.cluster_uid, NAME_LIMIT),
                "kubernetesVersion": one_line(report.target.kubernetes_version, NAME_LIMIT),
            },
            "verdict": report.verdict.value,
            "readAt": sources.taken_at,
            "lists": [msgspec.to_builtins(one) for one in sources.lists],
            "requirements": requirements,
            "judgedAgain": [name for name, why in again.items() if not why],
            "notJudgedAgain": [{"id": name, "because": one_line(why)} for name, why in again.items() if why],
            "leftOut": {"objects": self._left_out, "because": f"an object is at most {MAX_OBJECT_BYTES} bytes, all are {MAX_BYTES}"},
            "files": [{"path": path, **facts} for path, facts in sorted(self._files.items())],
        }
        if report_file is not None:
            index["report"] = {"path": f"../{report_file.name}", "sha256": hashlib.sha256(report_file.read_bytes()).hexdigest()}
        sums = "".join(f"{facts['sha256']}  {path}\n" for path, facts in sorted(self._files.items()))
        data = _encoded(index)
        private_files.write(self._folder / SUMS, (sums + f"{hashlib.sha256(data).hexdigest()}  {INDEX}\n").encode())
        private_files.replace(self._folder / INDEX, data)
        return self._folder

    def _outputs(self) -> dict[str, list[str]]:
        """Paths of the outputs that the probes of each requirement left, by the first part of their names."""
        found: dict[str, list[str]] = {}
        for path in self._kept("outputs"):
            found.setdefault(path.name.partition(".")[0], []).append(f"outputs/{path.name}")
        return found

    def _kept(self, part: str) -> list[Path]:
        """The files that requirements left in a part of the folder, as far as there is room for them."""
        found = []
        room = MAX_BYTES
        for file in sorted((self._folder / part).iterdir()):
            data = b"" if file.is_symlink() else file.read_bytes()
            room -= len(data)
            if room < 0 or file.is_symlink():
                file.unlink()
                self._left_out += 1
                continue
            self._files[f"{part}/{file.name}"] = _facts(data)
            found.append(file)
        return found

    def _requirement(self, result: Result, sources: Sources, outputs: Mapping[str, list[str]]) -> Json:
        subjects: list[Json] = []
        objects: set[str] = set()
        not_kept = 0
        for subject in phrases.by_urgency(result.subjects):
            path = self._object(subject, sources) if len(objects) < MAX_OBJECTS else None
            if path:
                objects.add(path)
            elif len(objects) >= MAX_OBJECTS:
                not_kept += 1
            subjects.append({**_subject(subject), "object": path})
        path = requirement_path(result.id)
        printed = outputs.get(_file_name(result.id), [])
        document: Json = {
            "id": one_line(result.id),
            "title": one_line(result.title),
            "access": result.access.value,
            "verdict": result.verdict.value,
            "reasonCode": one_line(result.reason_code),
            "message": safe_text(result.message, 4_000),
            "judged": result.judged,
            "total": result.total,
            "reads": sources.reads.get(result.id, []),
            "subjects": subjects,
            "subjectsOmitted": result.subjects_omitted,
            "objectsOmitted": not_kept,
            "outputs": printed,
        }
        data = _encoded(document)
        private_files.write(self._folder / path, data)
        self._files[path] = _facts(data)
        return {"id": one_line(result.id), "verdict": result.verdict.value, "file": path, "objects": len(objects), "outputs": len(printed)}

    def _object(self, subject: SubjectResult, sources: Sources) -> str | None:
        """Path of the subject's object, written when it is new; None where there is none or no room."""
        key = (subject.kind, subject.namespace, subject.name)
        if key not in self._stored:
            found = sources.find(subject)
            self._stored[key] = self._store(safe_object(found), key) if found is not None else ""
        return self._stored[key] or None

    def _store(self, value: object, key: tuple[str, str, str]) -> str:
        data = _encoded(value)
        words = ".".join(_file_name(part.split(" ", 1)[0]) for part in key if part) or "_"
        path = f"objects/{words[:120]}.{hashlib.sha256(data).hexdigest()[:16]}.json"
        if path in self._files:
            return path
        if len(data) > min(MAX_OBJECT_BYTES, self._room):
            self._left_out += 1
            return ""
        self._room -= len(data)
        private_files.write(self._folder / path, data)
        self._files[path] = _facts(data)
        return path


def requirement_path(identifier: str) -> str:
    """Where the findings of a requirement are, in the folder."""
    return f"requirements/{_file_name(identifier)}.json"


def subjects_of(result: Result) -> list[Json]:
    """The subjects of a result as its file has them, without their objects."""
    return [_subject(subject) for subject in phrases.by_urgency(result.subjects)]


def _subject(subject: SubjectResult) -> Json:
    texts = {name: safe_text(getattr(subject, name)) for name in ("observed", "expected", "source", "message")}
    names = {name: one_line(safe_text(getattr(subject, name)), NAME_LIMIT) for name in ("kind", "namespace", "name")}
    return {**names, "verdict": subject.verdict.value, **{name: text for name, text in texts.items() if text}}


def _facts(data: bytes) -> Json:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _encoded(value: object, *, sort: bool = True) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=sort, ensure_ascii=False) + "\n").encode("utf-8", "backslashreplace")


def _file_name(text: str) -> str:
    """``text`` as part of a file name: never a path, never hidden, and never without anything."""
    return _UNSAFE_NAME.sub("_", safe_text(text, 200))[:80].lstrip(".") or "_"
