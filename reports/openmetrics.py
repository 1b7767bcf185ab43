"""Metrics for the textfile collector of node_exporter, and the same as OpenMetrics.

No label carries a node or a pod: the number of series is the number of requirements, whatever the size of the cluster.
The textfile collector reads the classic text format, which has no ``# EOF``; OpenMetrics demands it.
"""

from __future__ import annotations

from fixtures.record import Report, Verdict
from reports import view
from reports.text import NAME_LIMIT, one_line

PREFIX = "gpu_conformance"

_Sample = tuple[dict[str, str], float]


def render(report: Report, *, openmetrics: bool = False) -> str:
    """All metrics; with ``openmetrics`` closed by ``# EOF``."""
    target = report.target.kind.value
    counts = view.counts(report)
    moment = view.started(report)
    end = moment.timestamp() + report.run.duration_seconds if moment else 0.0
    families: list[tuple[str, str, list[_Sample]]] = [
        (
            "run_info",
            "What was judged; target says whether it was a real cluster.",
            [
                (
                    {
                        "target": target,
                        "scenario": report.target.scenario,
                        "kubernetes_version": report.target.kubernetes_version,
                        "suite_version": report.suite.version,
                        "verdict": report.verdict.value,
                    },
                    1,
                )
            ],
        ),
        ("conformant", "1 when the run ended with exit code 0.", [({"target": target}, float(report.exit_code == 0))]),
        ("exit_code", "Exit code of the run.", [({"target": target}, report.exit_code)]),
        (
            "requirement",
            "Verdict of each requirement; the value is always 1.",
            [
                ({"id": r.id, "area": r.area, "level": r.level.value, "verdict": r.verdict.value, "target": target}, 1)
                for r in report.results
            ],
        ),
        (
            "requirements",
            "Number of requirements by verdict.",
            [({"verdict": v.value, "target": target}, counts[v]) for v in Verdict],
        ),
        ("subjects_judged", "Subjects with a yes or a no.", [({"id": r.id, "target": target}, r.judged) for r in report.results]),
        ("subjects_seen", "Subjects the requirement saw.", [({"id": r.id, "target": target}, r.total) for r in report.results]),
        (
            "requirement_duration_seconds",
            "Time the requirement took.",
            [({"id": r.id, "target": target}, r.duration_seconds) for r in report.results],
        ),
        ("residue_objects", "Objects the run could not delete or restore.", [({"target": target}, len(report.residue))]),
        ("api_requests", "Requests the run sent to the API server.", [({"target": target}, report.requests.count)]),
        ("last_run_timestamp_seconds", "When the run ended, in Unix time.", [({"target": target}, end)]),
        ("last_run_duration_seconds", "How long the run took.", [({"target": target}, report.run.duration_seconds)]),
    ]
    lines: list[str] = []
    for name, text, samples in families:
        lines += [f"# HELP {PREFIX}_{name} {text}", f"# TYPE {PREFIX}_{name} gauge"]
        series = {f"{PREFIX}_{name}{{{_labels(labels)}}}": _number(value) for labels, value in samples}  # a repeated series voids the file
        lines += [f"{key} {value}" for key, value in series.items()]
    if openmetrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())


def _escape(value: str) -> str:
    return one_line(value, NAME_LIMIT).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:.6f}".rstrip("0")
