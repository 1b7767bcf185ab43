"""What a run prints on the terminal: its target, one line per requirement, the summary."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.plugin.session import State
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Result, TargetKind, Verdict

REPORT = pytest.StashKey[Report]()
VERDICT = pytest.StashKey[str]()
"""The verdict's line, to be written below pytest's own count."""

_COLOUR = {
    Verdict.PASSED: {"green": True},
    Verdict.FAILED: {"red": True, "bold": True},
    Verdict.ERROR: {"red": True, "bold": True},
    Verdict.INCONCLUSIVE: {"yellow": True, "bold": True},
    Verdict.WARNED: {"yellow": True},
    Verdict.WAIVED: {"cyan": True},
    Verdict.NOT_APPLICABLE: {"light": True},
}
_WORD = {Verdict.NOT_APPLICABLE: "n/a"}


def header(state: State) -> list[str]:
    """Lines above the run."""
    target = state.opened.target
    lines = []
    if target.kind is TargetKind.SIMULATED:
        defects = f", defects {', '.join(target.defects)}" if target.defects else ""
        scenario = f"scenario {target.scenario}{defects}" if target.scenario else "reached by kubeconfig"
        lines.append(f"*** SIMULATED CLUSTER ({scenario}): the results are not a real cluster's ***")
    if target.kind is TargetKind.LOCAL:
        lines.append("*** LOCAL CONTROL PLANE: real Kubernetes processes, simulated GPU nodes; the results are not a real cluster's ***")
    lines += [f"gang scheduler: {component}" for component in target.components]
    lines += [f"not as in the scenario: {note}" for note in target.notes]
    version = f", Kubernetes {target.kubernetes_version}" if target.kubernetes_version else ""
    lines.append(f"target: {target.kind} {target.server}{version}")
    lines.append(f"run: {state.run_id}, access up to {state.options.access}")
    return lines


def prepare(config: pytest.Config) -> None:
    """Let pytest print neither file names nor percentages: a line per requirement says more."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.showfspath = False
        reporter._show_progress_info = False


def teller(config: pytest.Config) -> Callable[[str], None]:
    """Prints a sentence on the terminal at once, fit for one line, also while pytest captures output."""
    from reports.safe_text import one_line  # imported late: most runs say nothing

    reporter, capture = (config.pluginmanager.getplugin(name) for name in ("terminalreporter", "capturemanager"))

    def tell(words: str) -> None:
        if reporter is None or config.option.verbose < 0:
            return
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            reporter.write_line(one_line(words))

    return tell


def show(config: pytest.Config, result: Result, count: int, planned: int) -> None:
    """One requirement's line."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.option.verbose < 0:
        return
    place = f"{count:3}/{planned}" if planned else f"{count:3}"
    judged = f"{result.judged}/{result.total}"
    reporter.ensure_newline()
    reporter.write(f"{place} {result.id:<9}")
    reporter.write(f"{_WORD.get(result.verdict, str(result.verdict)):<13}", **_COLOUR[result.verdict])
    reporter.write_line(f"{judged:>11} {result.duration_seconds:6.1f} s  {result.title}")


def summary(reporter: pytest.TerminalReporter, report: Report, folder: Path, chaos: ChaosReport | None) -> str:
    """The tables of areas and experiments, then what needs attention. Returns the verdict's line: it is for the very end."""
    from reports.terminal.summary import summary as render  # imported late: rich is not needed before

    writer = reporter._tw
    reporter.write_line("")
    text = render(report, width=max(writer.fullwidth, 80), colour=writer.hasmarkup, report_path=_shown(folder), chaos=chaos)
    above, _, last = text.rstrip("\n").rpartition("\n")
    reporter.write(above.rstrip("\n") + "\n")
    return last


def _shown(folder: Path) -> str:
    try:
        return str(folder.relative_to(Path.cwd()) / "report.html")
    except ValueError:
        return str(folder / "report.html")
