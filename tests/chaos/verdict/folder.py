"""A folder with the artefacts of an experiment that went well, to be spoilt by tests."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from chaos.model.plan import Plan, Target
from chaos.model.records import Ending, EngineRecord, GateResult
from chaos.verdict import artefacts
from chaos.verdict.artefacts import Conformance, Requirement, StandingRecord, Stored
from fixtures.verdict.record import TargetKind, Verdict
from tests.chaos.catalogue.documents import document

BEGAN = 1_800_000_000.0
GOOD = {"node.labels": "a", "node.ready": True, "nodes.others": []}
SECONDS = {"recovery": 20.0, "settle": 0.5, "deadline": 30.0, "sample": 0.1, "gap": 1.0, "grace": 3.0}


def at(t: float) -> str:
    return datetime.fromtimestamp(BEGAN + t, UTC).isoformat()


def entry(seq: int, undo: str = "node.labels") -> dict[str, Any]:
    return {"seq": seq, "run_id": "r", "experiment": "X1", "cluster_uid": "u", "undo": undo, "args": {}, "expires_at": at(100)}


def ledger(seq: int = 1, undo: str = "node.labels", start: float = 2.0) -> list[dict[str, Any]]:
    states = [("armed", 0.0), ("applied", 0.02), ("undoing", 2.0), ("undone", 2.1), ("verified", 2.2)]
    lines: list[dict[str, Any]] = [{"seq": seq, "state": state, "at": at(start + offset)} for state, offset in states]
    lines[0]["entry"] = entry(seq, undo)
    return lines


def samples(change: Callable[[float], dict[str, Any]] | None = None, end: float = 7.0, step: float = 0.25) -> list[dict[str, Any]]:
    """Samples of a label that is there from 2 to 4 seconds. ``change`` gives values that differ from the good ones."""
    found = []
    for index in range(int(end / step)):
        t = round(index * step, 3)
        values = {**GOOD, **({"node.labels": "b"} if 2.0 <= t < 4.1 else {}), **(change(t) if change else {})}
        errors = {name: "no answer" for name, value in values.items() if value is None}
        kept = {name: value for name, value in values.items() if value is not None}
        found.append({"t": t, "at": at(t), "took": 0.01, "values": kept, "errors": errors})
    return found


def record(name: str, status: str | None = "succeeded") -> dict[str, Any]:
    return {"activity": {"name": name}, "output": None, **({"status": status} if status else {})}


class Folder:
    """Writes on :meth:`write`; what is set before spoils it."""

    def __init__(self, path: Path, **extension: Any) -> None:
        self.path = path
        self.document = document(**extension)
        self.plan = Plan(
            experiment="X1",
            run_id="r",
            cluster_uid="u",
            server="s",
            target_kind=TargetKind.SIMULATED,
            namespace="n",
            targets=(Target(kind="nodes", name="n1", uid="1", node="n1"),),
            untouched="n2",
            expires_at=at(100),
            seconds=SECONDS,
            eligible=3,
        )
        self.engine = EngineRecord(
            experiment="X1",
            run_id="r",
            plan_digest=self.plan.digest,
            target_kind=TargetKind.SIMULATED,
            fidelity="simulated",
            level=0,
            started=BEGAN,
            finished=BEGAN + 8,
            sampler_began=BEGAN,
            baseline_t=0.5,
            child_started=BEGAN + 1.5,
            child_ended=BEGAN + 4.5,
            gates=[GateResult(name="halt", ok=True)],
            ending=Ending(code=0),
        )
        self.ledger = ledger()
        self.samples = samples()
        self.journal: dict[str, Any] = {
            "status": "completed",
            "run": [record("label"), record("hold 1.0")],
            "rollbacks": [record("undo")],
        }
        self.before = Conformance(at=at(0), requirements={"INV-01": Requirement(verdict=Verdict.PASSED)})
        self.after = Conformance(at=at(8), requirements={"INV-01": Requirement(verdict=Verdict.PASSED)})
        self.standing = StandingRecord(objects=3)
        self.allocations: list[dict[str, Any]] | None = None

    def write(self) -> Path:
        self.path.mkdir(parents=True, exist_ok=True)
        artefacts.write(self.path / artefacts.EXPERIMENT, Stored(path="X1.yaml", document=self.document))
        artefacts.write(self.path / artefacts.PLAN, self.plan)
        artefacts.write(self.path / artefacts.ENGINE, self.engine)
        artefacts.write(self.path / artefacts.JOURNAL, self.journal)
        artefacts.write(self.path / artefacts.BEFORE, self.before)
        artefacts.write(self.path / artefacts.AFTER, self.after)
        artefacts.write(self.path / artefacts.STANDING, self.standing)
        self._lines(artefacts.LEDGER, self.ledger)
        self._lines(artefacts.SAMPLES, self.samples)
        if self.allocations is not None:
            self._lines(artefacts.ALLOCATIONS, self.allocations)
        return self.path

    def _lines(self, name: str, lines: list[dict[str, Any]]) -> None:
        (self.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def replaced(requirement: Verdict) -> Conformance:
    return msgspec.structs.replace(Conformance(at=at(8)), requirements={"INV-01": Requirement(verdict=requirement)})
