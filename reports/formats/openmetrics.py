"""Metrics for the textfile collector of node_exporter, and the same as OpenMetrics.

No label carries a node or a pod: the number of series is that of requirements and experiments, whatever the size of the cluster.
Families of experiments are there when the run was about experiments, ``conformant`` when it was about requirements.
The textfile collector reads the classic text format, which has no ``# EOF``; OpenMetrics demands it.
"""

from collections import Counter

from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.coverage import is_partial
from fixtures.verdict.record import Cause, Report, Verdict, WaiverState
from reports import chaos_phrases, phrases
from reports.safe_text import NAME_LIMIT, one_line

PREFIX = "gpu_conformance"

_Sample = tuple[dict[str, str], float]
_Family = tuple[str, str, list[_Sample]]


def render(report: Report, chaos: ChaosReport | None = None, *, openmetrics: bool = False) -> str:
    """All metrics; with ``openmetrics`` closed by ``# EOF``."""
    target = report.target.kind.value
    counts = phrases.counts(report)
    moment = phrases.started(report)
    end = moment.timestamp() + report.run.duration_seconds if moment else 0.0
    run = {
        "target": target,
        "scenario": report.target.scenario,
        "simulated": str(report.target.simulated).lower(),
        "kubernetes_version": report.target.kubernetes_version,
        "suite_version": report.suite.version,
        "verdict": report.verdict.value,
    }
    known = [{"id": r.id, "area": r.area, "level": r.level.value, "verdict": r.verdict.value, "target": target} for r in report.results]
    held = [(r, {"id": r.id, "target": target}) for r in report.results]
    families: list[_Family] = [
        ("run_info", "What was judged; target says whether it was a real cluster.", [(run, 1)]),
        ("exit_code", "Exit code of the run.", [({"target": target}, report.exit_code)]),
        ("requirement", "Verdict of each requirement; the value is always 1.", [(labels, 1) for labels in known]),
        ("requirements", "Number of requirements by verdict.", [({"verdict": v.value, "target": target}, counts[v]) for v in Verdict]),
        ("subjects_judged", "Subjects with a yes or a no.", [(labels, r.judged) for r, labels in held]),
        ("subjects_seen", "Subjects the requirement saw.", [(labels, r.total) for r, labels in held]),
        ("requirement_duration_seconds", "Time the requirement took.", [(labels, r.duration_seconds) for r, labels in held]),
        ("regressions", "What is worse than in the baseline.", [({"target": target}, len(report.regressions))]),
        (
            "waivers",
            "Waivers of the run, by what became of them.",
            [({"target": target, "state": state.value}, sum(one.state is state for one in report.waivers)) for state in WaiverState],
        ),
        ("residue_objects", "Objects the run could not delete or restore.", [({"target": target}, len(report.residue))]),
        ("api_requests", "Requests the run sent to the API server.", [({"target": target}, report.requests.count)]),
        ("last_run_timestamp_seconds", "When the run ended, in Unix time.", [({"target": target}, end)]),
        ("last_run_duration_seconds", "How long the run took.", [({"target": target}, report.run.duration_seconds)]),
    ]
    if not chaos_phrases.only_chaos(report, chaos):
        conformant = float(report.exit_code == 0 and not is_partial(report.scope))
        families.insert(
            1,
            (
                "conformant",
                "1 when the run ended with exit code 0, no option left a requirement out, and no snapshot lacks what a MUST reads.",
                [({"target": target}, conformant)],
            ),
        )
        families += _scope(report, target)
    families += _chaos(chaos) if chaos else []
    lines: list[str] = []
    for name, text, samples in families:
        lines += [f"# HELP {PREFIX}_{name} {text}", f"# TYPE {PREFIX}_{name} gauge"]
        series = {f"{PREFIX}_{name}{{{_labels(labels)}}}": _number(value) for labels, value in samples}  # a repeated series voids the file
        lines += [f"{key} {value}" for key, value in series.items()]
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _scope(report: Report, target: str) -> list[_Family]:
    scope = report.scope
    if scope is None:
        return []
    causes = Counter(one.cause for one in scope.not_judged)
    return [
        ("requirements_known", "Requirements of the catalogue.", [({"target": target}, scope.requirements)]),
        ("requirements_judged", "Requirements with a yes or a no.", [({"target": target}, scope.judged)]),
        (
            "requirements_not_judged",
            "Requirements without a yes or a no, by cause.",
            [({"cause": cause.value, "target": target}, causes[cause]) for cause in Cause],
        ),
        ("scope_shortfalls", "What was not judged although it had to be.", [({"target": target}, len(scope.shortfalls))]),
    ]


def _chaos(chaos: ChaosReport) -> list[_Family]:
    held = [(r, {"experiment": r.id, "fidelity": chaos_phrases.fidelity(r), "target": r.target_kind.value}) for r in chaos.experiments]
    recovered = [(span, labels | {"from": r.recovery_from}) for r, labels in held if (span := chaos_phrases.recovery(r)) is not None]
    unsure = [(labels, span.uncertainty) for span, labels in recovered if span.uncertainty is not None]
    detected = [(labels, span.seconds) for r, labels in held if (span := chaos_phrases.detection(r)) is not None]
    bounds = [(labels, bound) for r, labels in held if (bound := chaos_phrases.finite(r.bound_seconds)) is not None]
    gaps = [(labels, gap) for r, labels in held if (gap := chaos_phrases.finite(r.sampler_gap_seconds)) is not None]
    counted, target = phrases.tally(chaos.experiments), chaos.target.kind.value
    states = [(labels | {"verdict": v.value}, float(r.verdict is v)) for r, labels in held for v in Verdict]
    return [
        ("chaos_experiments", "Number of experiments by verdict.", [({"verdict": v.value, "target": target}, counted[v]) for v in Verdict]),
        ("chaos_experiment", "The experiments and their level.", [(labels | {"level": str(r.level)}, 1.0) for r, labels in held]),
        ("chaos_verdict", "1 for the verdict an experiment has, 0 for the others.", states),
        ("chaos_detection_seconds", "From the fault to its detection.", detected),
        ("chaos_recovery_seconds", "Time to recovery, from the fault or the undo.", [(labels, span.seconds) for span, labels in recovered]),
        ("chaos_recovery_uncertainty_seconds", "Uncertainty of the time to recovery.", unsure),
        ("chaos_recovery_bound_seconds", "What the time to recovery may be.", bounds),
        ("chaos_sampler_gap_seconds", "Longest silence between two samples.", gaps),
        ("chaos_residue_changes", "Changes that were not put back.", [(labels, len(r.residue)) for r, labels in held]),
    ]


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return one_line(value, NAME_LIMIT).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6f}".rstrip("0")
