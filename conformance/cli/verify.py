"""``gpu-conformance verify`` and ``sign``: is a report folder as a run wrote it, and who says so? Offline."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from conformance.catalogue import load_catalogue
from conformance.cli.arguments import Parser, complain, tell
from conformance.cli.commands import command_parser
from conformance.delivery import signing
from conformance.delivery.signing import STATEMENT, SUFFIXES, SigningError
from conformance.plugin import again
from conformance.plugin.again import Again, CannotJudge, Judging
from conformance.plugin.verdict import decide, summarise, unjudged
from conformance.version import VERSION
from fixtures.policy.policy_file import PolicyError, build_policy, policy_text
from fixtures.text import json_text, typed, users_files
from fixtures.text.json_text import NotJson
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Access, Report, Result, Verdict
from reports.evidence import bundle
from reports.folder import JSON_NAME, MAX_BYTES, ReportError, each_view, load_run

PROGRAM = "gpu-conformance verify"
FORGED, USAGE, UNDECIDED = 1, 4, 10
MAX_TOLD = 40

_SHOWS = {
    "NonConformant": Verdict.FAILED,
    "Undecided": Verdict.INCONCLUSIVE,
    "Waived": Verdict.WAIVED,
}
"""What one subject at least must be, by the reason code of a requirement."""
_BELOW_PASSED = frozenset({Verdict.FAILED, Verdict.WARNED, Verdict.INCONCLUSIVE, Verdict.ERROR, Verdict.WAIVED})


class _File(msgspec.Struct):
    path: str
    sha256: str


class _Index(msgspec.Struct, rename="camel"):
    """What is read of ``index.json``."""

    complete: bool = False
    run: dict[str, Any] = {}
    verdict: str = ""
    report: dict[str, Any] | None = None
    judged_again: list[str] = []
    files: list[_File] = []


class _Requirement(msgspec.Struct):
    """What is read of a requirement's file."""

    id: str
    verdict: str
    judged: int
    total: int
    subjects: list[dict[str, Any]]


class _Unlike(Exception):
    """Something does not fit. A clause that begins with the file."""


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of one of these commands."""
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="report folder of a run with --evidence")
    if command == "sign":
        parser.add_argument("--with", dest="program", choices=list(SUFFIXES), required=True, help="the program that signs, found on PATH")
        parser.add_argument("--key", type=Path, metavar="FILE", required=True, help="its key, which only the program reads")
        return
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="public key that the folder must be signed with; default: none is asked for"
    )


def main(argv: Sequence[str]) -> int:
    """``sign``: 0, or 4 where nothing was signed. ``verify``: 0, 1 where something does not fit, 4 no report, 10 not all was checked."""
    arguments = command_parser(argv[0]).parse_args(argv[1:])
    try:
        report, chaos = load_run(arguments.folder)
        if argv[0] == "sign":
            tell(signing.sign(report, arguments.folder.resolve(), arguments.program, arguments.key))
            return 0
    except (ReportError, SigningError, OSError) as error:
        return complain(f"gpu-conformance {argv[0]}", error)
    return _tell(_Checked(arguments.folder.resolve(), report, chaos), arguments.key)


def _tell(checked: _Checked, key: Path | None) -> int:
    """Everything that does not fit, what was not checked, and one line that says what the folder is worth."""
    problems = list(checked.problems(key))
    for problem in problems[:MAX_TOLD]:
        tell(f"does not fit: {problem}")
    for point in checked.open:
        tell(f"not checked: {point}")
    if problems:
        tell(f"NOT AS A RUN WROTE IT: {len(problems)} things do not fit")
        return FORGED
    by = f"signed with {checked.program}" if checked.program else "not signed: whoever can write the folder may have made all of it"
    tell(f"FITS: {checked.judged} of {checked.reading} read requirements judged again, byte for byte; {by}")
    return UNDECIDED if checked.open else 0


class _Checked:
    """A report folder under examination. ``open`` is what could not be checked, a clause each."""

    def __init__(self, folder: Path, report: Report, chaos: ChaosReport | None) -> None:
        self._folder, self._report, self._chaos = folder, report, chaos
        self.open: list[str] = []
        self.program = ""
        self.judged = 0
        self._known = load_catalogue().by_id
        self.reading = sum(result.access is Access.READ for result in report.results)

    def problems(self, key: Path | None) -> Iterator[str]:
        """All that does not fit. What is broken hides nothing of the other parts."""
        for part in (partial(self._signature, key), self._evidence, self._follows, self._views):
            try:
                yield from part()
            except (_Unlike, SigningError) as error:
                yield str(error)
            except OSError as error:
                yield f"{error.filename or self._folder}: {error.strerror or error}"

    def _signature(self, key: Path | None) -> Iterator[str]:
        signing.files_of(self._folder)
        if not (self._folder / STATEMENT).exists():
            if key is not None:
                yield f"{STATEMENT}: is not there, and a signature was asked for"
            return
        yield from (unlike := signing.unlike_statement(self._folder))
        judged_here = self._report.suite.version == VERSION
        if judged_here and not unlike and not signing.is_statement_of(self._report, self._folder):
            yield f"{STATEMENT}: says something else of the run than {JSON_NAME}"
        signers = signing.signed_by(self._folder)
        if key is None:
            self.open.append("the signature: --key FILE names the public key")
        elif not signers:
            yield f"{STATEMENT}: nobody signed it"
        else:
            signing.check_signature(self._folder, signers[0], key)
            self.program = signers[0]

    def _evidence(self) -> Iterator[str]:
        folder = self._folder / bundle.NAME
        if not folder.is_dir():
            self.open.append("verdicts: the run kept no evidence (--evidence)")
            return
        index = _json(folder / bundle.INDEX, _Index)
        if not index.complete:
            raise _Unlike(f"{bundle.INDEX}: the run was killed before its evidence was whole")
        yield from _unlike_index(folder, index)
        run = {"id": self._report.run.id, "startedAt": self._report.run.started_at}
        for name, same in {"run": index.run == run, "verdict": index.verdict == self._report.verdict}.items():
            if not same:
                yield f"{bundle.INDEX}: {name} is not that of {JSON_NAME}"
        for result in self._report.results:
            yield from _unlike_requirement(folder, result)
        yield from self._again(folder, set(index.judged_again))

    def _again(self, folder: Path, names: set[str]) -> Iterator[str]:
        if not (folder / bundle.JUDGING).exists():
            self.open.append("verdicts: the lists of this cluster were too large to be kept, so nothing can be judged again")
            return
        try:
            judging = again.read_judging(folder)
            yield from self._unlike_run(judging)
            if own := [table.name for table in self._report.run.tables if table.own]:
                self.open.append(f"verdicts: the run was given tables of its owner's ({', '.join(own)}), which the folder does not hold")
                return
            if judging.tables != again.tables_digest():
                if self._report.suite.version == VERSION:
                    yield f"{bundle.JUDGING}: judged by other tables than those of version {VERSION}"
                else:
                    self.open.append(f"verdicts: version {self._report.suite.version} judged, and this is {VERSION}")
                return
            _json(folder / bundle.SNAPSHOT)
            found = again.judge_again(folder, (one for one in self._report.results if one.id in self._known))
        except CannotJudge as error:
            raise _Unlike(str(error)) from None
        met = {result.id: result for result in self._report.results if result.access is Access.READ}
        yield from (f"{JSON_NAME}: {name} is judged again and is not there" for name in sorted(names - met.keys()))
        for name, result in met.items():
            if found.gives(result):
                self.judged += 1
            elif name in names or self._hides(result, found):
                yield f"{JSON_NAME}: {name} is {result.verdict}, and the kept lists do not give this result"
            else:
                self.open.append(f"{name}: {found.why_unlike(result, self._lists(name))}")
        if 2 * self.judged < len(met):
            self.open.append("most verdicts: what was left out of the kept lists decides them")

    def _hides(self, met: Result, found: Again) -> bool:
        """Whether the lists show a failure that the record lacks. Whoever can write the folder also says what was judged again.

        A requirement may fail for want of a value or an answer that redaction took.
        """
        judged_again = found.results.get(met.id, met)
        fails, failed = (one.verdict in (Verdict.FAILED, Verdict.WARNED) for one in (judged_again, met))
        wanting = met.id in found.gaps or (bool(found.hidden) and "configmaps" in self._lists(met.id))
        return fails and not failed and met.verdict is not Verdict.WAIVED and not wanting

    def _lists(self, name: str) -> Collection[str]:
        return self._known[name].lists if name in self._known else ()

    def _unlike_run(self, judging: Judging) -> Iterator[str]:
        """The run that the evidence was kept of, against the record."""
        given = judging.handover
        told = (self._report.run.id, self._report.target.cluster_uid, self._report.target.kind)
        if (given.run_id, given.target.cluster_uid, given.target.kind) != told:
            yield f"{bundle.JUDGING}: is of another run or another cluster than {JSON_NAME}"
        try:
            policy = policy_text(build_policy(given.policy))
        except PolicyError as error:
            raise _Unlike(f"{bundle.JUDGING}: {error}") from None
        if self._report.policy is None or policy.whole != self._report.policy.whole:
            yield f"{bundle.JUDGING}: judged by another policy than {JSON_NAME} shows"
        verdict, _ = decide(
            self._report.results,
            strict=judging.strict,
            required=(*judging.require, *given.policy.get("required", ())),
            pytest_exit=0,
            residue=False,
            chaos=self._chaos.experiments if self._chaos else None,
            shortfalls=self._report.scope.shortfalls if self._report.scope else (),
        )
        if verdict is not self._report.verdict and not self._report.other_cluster_uid and self._report.exit_code in (0, 1, 10):
            yield f"{JSON_NAME}: the verdict is {self._report.verdict}, and its results make {verdict}"

    def _follows(self) -> Iterator[str]:
        """Verdicts that do not follow from what is beside them."""
        _json(self._folder / JSON_NAME)
        if summarise(self._report.results) != self._report.summary:
            yield f"{JSON_NAME}: the summary does not count its results"
        if self._report.suite.version == VERSION:
            yield from self._unlike_catalogue()
        for result in self._report.results:
            met = {subject.verdict for subject in result.subjects}
            needed = _SHOWS.get(result.reason_code)
            if result.verdict is Verdict.PASSED and (met & _BELOW_PASSED or not result.judged):
                yield f"{JSON_NAME}: {result.id} passed, and its subjects did not"
            elif needed is not None and needed not in met:
                yield f"{JSON_NAME}: {result.id} is {result.verdict}, and none of its subjects is {needed}"
            if result.subjects and len(result.subjects) + result.subjects_omitted != result.total:
                yield f"{JSON_NAME}: {result.id} has {result.total} subjects, and {len(result.subjects)} are there"

    def _unlike_catalogue(self) -> Iterator[str]:
        """Requirements that are not those of this version: renamed, softened, or left out without a word."""
        accounted = {one.id for one in (*self._report.results, *(self._report.scope.not_judged if self._report.scope else ()))}
        if self._report.scope:
            yield from (f"{JSON_NAME}: {name} is not there" for name in self._known if name not in accounted)
        for result in self._report.results:
            known = unjudged(self._known[result.id]) if result.id in self._known else None
            if known is None or (known.title, known.level, known.access) != (result.title, result.level, result.access):
                yield f"{JSON_NAME}: {result.id} is not as the catalogue of version {VERSION} has it"

    def _views(self) -> Iterator[str]:
        """Pages and files that are not what this version makes of the record."""
        if self._report.suite.version != VERSION:
            return
        for name, data in each_view(self._report, self._chaos):
            path = self._folder / name
            if path.exists() and users_files.read(path, MAX_BYTES) != data:
                yield f"{name}: is not what {JSON_NAME} makes"


def _unlike_index(folder: Path, index: _Index) -> Iterator[str]:
    """Files against the digests of the index and of ``SHA256SUMS``, and the record against both."""
    listed = {one.path: one.sha256 for one in index.files}
    listed[bundle.INDEX] = _digest(folder / bundle.INDEX)
    lines = users_files.read(folder / bundle.SUMS, MAX_BYTES).decode(errors="replace").splitlines()
    sums = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    if sums != listed or len(sums) != len(lines):
        yield f"{bundle.SUMS}: does not list what {bundle.INDEX} lists"
    there = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if not path.is_dir()}
    yield from (f"{name}: is listed and not there" for name in sorted(listed.keys() - there.keys()))
    yield from (f"{name}: nobody listed it" for name in sorted(there.keys() - listed.keys() - {bundle.SUMS}))
    for name in sorted(listed.keys() & there.keys()):
        if _digest(there[name]) != listed[name]:
            yield f"{name}: is not the file whose digest is listed"
    if not index.report or index.report.get("sha256") != _digest(folder.parent / JSON_NAME):
        yield f"{JSON_NAME}: is not the record that the evidence is of"


def _unlike_requirement(folder: Path, result: Result) -> Iterator[str]:
    """The file of a requirement against its result."""
    path = bundle.requirement_path(result.id)
    document = _json(folder / path, _Requirement)
    subjects = [{key: value for key, value in one.items() if key != "object"} for one in document.subjects]
    same = (document.id, document.verdict, document.judged, document.total) == (result.id, result.verdict, result.judged, result.total)
    if not same:
        yield f"{path}: is not the result in {JSON_NAME}"
    elif subjects != bundle.subjects_of(result):
        yield f"{path}: has other subjects than {JSON_NAME}"


def _digest(path: Path) -> str:
    return hashlib.sha256(users_files.read(path)).hexdigest()


def _json(path: Path, kind: Any = Any) -> Any:
    """The value of a JSON file in which no key stands twice. Raises :class:`_Unlike`, also for what is not of this kind."""
    try:
        return typed.convert(json_text.decode_unique(users_files.read(path, MAX_BYTES)), kind)
    except (NotJson, msgspec.ValidationError) as error:
        raise _Unlike(f"{path.name}: {error}") from None
