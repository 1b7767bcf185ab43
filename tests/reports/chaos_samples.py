"""Records of chaos experiments for the report's tests."""

from typing import Any

from fixtures.verdict.chaos_record import ChaosFinding, ChaosMark, ChaosReport, ChaosResult, ChaosSeries, ChaosStep
from fixtures.verdict.record import Report, Run, Suite, Target, TargetKind, Verdict
from tests.reports.sample_report import report

HOSTILE = "<script>alert('x')</script>\u202e\x1b[31m&\"'"


def marks(**seconds: float) -> list[ChaosMark]:
    return [ChaosMark(name=name, seconds=value, uncertainty=0.25, at="2026-01-01T00:00:00.000+00:00") for name, value in seconds.items()]


def series(name: str, kind: str, *steps: tuple[float, float | None, str]) -> ChaosSeries:
    return ChaosSeries(signal=name, kind=kind, steps=[ChaosStep(seconds=t, value=value, text=text) for t, value, text in steps])


def experiment(verdict: Verdict = Verdict.PASSED, **change: Any) -> ChaosResult:
    given: dict[str, Any] = {
        "id": "A1",
        "title": "Device plugin killed",
        "level": 1,
        "verdict": verdict,
        "fidelity": "simulated",
        "target_kind": TargetKind.SIMULATED,
        "proves": "The plugin comes back.",
        "marks": marks(inject=4.0, detect=4.5, contained=4.75, recovered=12.5),
        "recovery_seconds": 8.5,
        "recovery_uncertainty": 0.25,
        "recovery_from": "fault",
        "bound_seconds": 30.0,
        "ended_seconds": 15.0,
        "series": [
            series("allocatable", "number", (2.0, 24.0, "24"), (4.5, 16.0, "16"), (7.0, None, "no data: 503"), (8.0, 24.0, "24")),
            series("plugin.ready", "state", (2.0, 1.0, "true"), (4.5, 0.0, "false"), (12.5, 1.0, "true")),
        ],
        "findings": [ChaosFinding(name="recovery", verdict=Verdict.PASSED, message="recovered")],
    }
    return ChaosResult(**{**given, **change})


def chaos(*experiments: ChaosResult, kind: TargetKind = TargetKind.SIMULATED) -> ChaosReport:
    return ChaosReport(
        suite=Suite(version="1"),
        target=Target(kind=kind, scenario="resilience"),
        run=Run(id="r", started_at="2026-01-01T00:00:00+00:00"),
        verdict=Verdict.PASSED,
        exit_code=0,
        summary={},
        experiments=list(experiments),
    )


def hostile_experiment() -> ChaosResult:
    return experiment(
        Verdict.FAILED,
        id=HOSTILE,
        title=HOSTILE,
        message=HOSTILE,
        fidelity=HOSTILE,
        proves=HOSTILE,
        targets=[HOSTILE],
        undo=[HOSTILE],
        untouched=HOSTILE,
        residue=[HOSTILE],
        reason_codes=[HOSTILE],
        expected_failure=HOSTILE,
        artefacts=HOSTILE,
        marks=[ChaosMark(name=HOSTILE, seconds=4.0, uncertainty=float("inf"), at=HOSTILE), *marks(inject=float("nan"))],
        series=[series(HOSTILE, "number", (2.0, float("nan"), HOSTILE), (float("inf"), 1e308, HOSTILE), (3.0, -1e308, HOSTILE))],
        findings=[ChaosFinding(name=HOSTILE, verdict=Verdict.FAILED, reason_code=HOSTILE, message=HOSTILE)],
    )


def mixed_chaos() -> ChaosReport:
    """One experiment of every outcome; what was done by N7 was not put back."""
    finding = ChaosFinding(name="recovery", verdict=Verdict.FAILED, reason_code="RecoveryTooSlow", message="not recovered within 30 s")
    unseen: dict[str, Any] = {"recovery_seconds": None, "recovery_uncertainty": None}
    made = chaos(
        experiment(targets=["pods gpu-operator/plugin-1"], started_at="2026-01-01T00:00:05.000+00:00", duration_seconds=21.5),
        experiment(
            Verdict.FAILED,
            id="A3",
            title="Discovery killed",
            message="too slow",
            reason_codes=["RecoveryTooSlow"],
            findings=[finding],
            **unseen,
        ),
        experiment(Verdict.INCONCLUSIVE, id="D6", title="Events stop", message="silent for 4.2 s", sampler_gap_seconds=4.2),
        experiment(Verdict.ERROR, id="N7", title="Drain refused", message="undo failed", residue=["nodes n1: unschedulable"]),
        experiment(
            Verdict.NOT_APPLICABLE, id="D13", title="Fabric stops", message="not installed", marks=[], series=[], findings=[], **unseen
        ),
    )
    made.verdict, made.exit_code, made.residue = Verdict.ERROR, 3, ["nodes n1: unschedulable"]
    return made


def hostile_chaos() -> ChaosReport:
    """Hostile text everywhere, and numbers that are no times."""
    strange = hostile_experiment()
    strange.recovery_seconds, strange.recovery_uncertainty = float("nan"), float("inf")
    strange.bound_seconds, strange.sampler_gap_seconds, strange.started_at = float("inf"), 1e300, "9999-99-99\x1b"
    made = chaos(strange, experiment(id="A2", recovery_seconds=float("-inf"), duration_seconds=float("inf")))
    made.verdict, made.exit_code = Verdict.FAILED, 1
    return made


def bare(made: ChaosReport, verdict: Verdict | None = None, exit_code: int | None = None) -> Report:
    """The report of a run that judged no requirement."""
    code = made.exit_code if exit_code is None else exit_code
    given = report([], kind=TargetKind.SIMULATED, verdict=verdict or made.verdict, exit_code=code)
    given.run.id = made.run.id
    return given
