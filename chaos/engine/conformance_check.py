"""Conformance of the areas that an experiment touches: the suite itself, read-only, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import yaml

from chaos.engine.handover import Access
from chaos.engine.supervision import Stop, supervise
from chaos.verdict.artefacts import Conformance, Requirement
from fixtures.kubernetes.models import Json
from fixtures.policy.model import Policy
from fixtures.verdict.record import Report, Verdict, decode_report

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 300.0


def policy_document(policy: Policy, names: Iterable[str]) -> Json:
    """The policy as a document, in which the namespaces that the run makes for itself are no tenants'."""
    more = (*policy.tenants.more_infrastructure, *names)
    tenants = msgspec.structs.replace(policy.tenants, more_infrastructure=more)
    document: Json = msgspec.to_builtins(msgspec.structs.replace(policy, tenants=tenants))
    return document


class ConformanceCheck:
    """Judges areas on one cluster. What was read after one experiment is what was before the next, if nothing happened between."""

    def __init__(self, access: Access, policy: Policy, stop: Stop, *, seconds: float = SECONDS) -> None:
        self._access = access
        self._policy = policy
        self._stop = stop
        self._seconds = seconds
        self._last: tuple[frozenset[str], Conformance] | None = None

    def forget(self) -> None:
        """Something happened: the next reading is a fresh one."""
        self._last = None

    def judge(self, areas: Iterable[str], own: Iterable[str] = ()) -> Conformance:
        """The verdicts of the areas' requirements now. ``own`` are the experiment's namespaces.

        Does not raise: why there are none is part of the answer.
        """
        wanted = frozenset(areas)
        if self._last is not None and wanted <= self._last[0]:
            known = self._last[1]
            kept = {id_: one for id_, one in known.requirements.items() if id_.partition("-")[0].lower() in wanted}
            return msgspec.structs.replace(known, requirements=kept)
        found = self._read(sorted(wanted), own)
        self._last = (wanted, found) if not found.trouble else None
        return found

    def _read(self, areas: Sequence[str], own: Iterable[str]) -> Conformance:
        with TemporaryDirectory(prefix="gpu-conformance-chaos-") as name:
            folder = Path(name)
            (folder / "policy.yaml").write_text(yaml.safe_dump(policy_document(self._policy, own)), encoding="utf-8")
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(
                    self._command(areas, folder), cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
                ending = supervise(process, self._stop, seconds=self._seconds, grace=2.0)
            return _result(folder, ending.stopped or f"exit code {ending.code}")

    def _command(self, areas: Sequence[str], folder: Path) -> list[str]:
        target = ["--in-cluster"] if self._access.in_cluster else ["--kubeconfig", self._access.kubeconfig]
        if self._access.context is not None and not self._access.in_cluster:
            target += ["--context", self._access.context]
        paths = [f"conformance/{area}" for area in areas]
        options = ["--read-only", "-q", "--report-dir", str(folder / "report"), "--record-only", "--policy", str(folder / "policy.yaml")]
        return [sys.executable, "-m", "pytest", *paths, *target, *options]


def _result(folder: Path, ended: str) -> Conformance:
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    try:
        report: Report = decode_report((folder / "report" / "report.json").read_bytes())
    except (OSError, msgspec.MsgspecError) as error:
        lines = (folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return Conformance(at=at, trouble=f"no report ({ended}): {lines[-1][:300] if lines else error}")
    found = {result.id: Requirement(verdict=result.verdict, message=result.message[:300]) for result in report.results}
    judged = {id_: one for id_, one in found.items() if one.verdict is not Verdict.NOT_APPLICABLE}
    return Conformance(at=at, requirements=judged)
