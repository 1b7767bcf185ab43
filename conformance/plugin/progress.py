"""What a run prints on the terminal: its target, one line per requirement, the summary."""

import contextlib
import os
import secrets
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from conformance.plugin import waiting
from conformance.plugin.session import State
from fixtures.verdict.chaos_record import ChaosReport
from fixtures.verdict.record import Report, Result, TargetKind, Verdict
from reports.terminal import actions
from reports.terminal.actions import command
from reports.verdicts import column, markup


class StepLog:
    """Writes commands to the runner. ``write`` prints a line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._token = ""  # while the runner reads no commands: what lets it read on

    def close(self) -> None:
        """Make the runner take no line for a command from here on."""
        if not self._token:
            self._token = secrets.token_hex(16)
            self._write(command("stop-commands", self._token))

    def reopen(self) -> None:
        """Let the runner read commands again, for the next program of the step."""
        if self._token:
            self._write(command(self._token))
            self._token = ""

    def say(self, *commands: str) -> None:
        """Give the runner the suite's own commands."""
        self.reopen()
        for line in commands:
            self._write(line)
        self.close()


REPORT = pytest.StashKey[Report]()
VERDICT = pytest.StashKey[str]()
"""The verdict's line, to be written below pytest's own count."""

STEP_LOG = pytest.StashKey[StepLog]()
_HELD_BACK = pytest.StashKey[list[pytest.TestReport]]()
_DEFAULT_CHARACTERS = "fE"
"""What pytest lists in its short summary where nobody asked for other things (``-r``)."""

PIPE_WIDTH = 120
"""Columns of tables in files and logs, which have no width of their own; ``--columns`` or ``COLUMNS`` names another."""

_LEAST = 24
"""Columns of a title in a terminal that has no room for it."""


def header(state: State) -> list[str]:
    """Lines above the run, each fit for a terminal: a server says its version."""
    from reports.safe_text import one_line  # imported late, as below

    target = state.opened.target
    lines = []
    if target.kind is TargetKind.SIMULATED:
        defects = f", defects {', '.join(target.defects)}" if target.defects else ""
        scenario = f"scenario {target.scenario}{defects}" if target.scenario else "reached by kubeconfig"
        lines.append(f"*** SIMULATED CLUSTER ({scenario}): the results are not a real cluster's ***")
    if target.kind is TargetKind.LOCAL:
        lines.append("*** LOCAL CONTROL PLANE: real Kubernetes processes, simulated GPU nodes; the results are not a real cluster's ***")
    lines += [f"beside the simulated nodes: {component}" for component in target.components]
    lines += [f"not as in the scenario: {note}" for note in target.notes]
    version = f", Kubernetes {target.kubernetes_version}" if target.kubernetes_version else ""
    kind = "cluster at" if target.kind is TargetKind.LIVE else target.kind  # whether it is live, its nodes have yet to say
    lines.append(f"target: {kind} {target.server}{version}")
    lines.append(f"run: {state.run_id}, access up to {state.options.access}")
    return [one_line(line) for line in lines]


def prepare(config: pytest.Config) -> None:
    """Let pytest print neither file names nor percentages: a line per requirement says more."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.showfspath = False
        reporter._show_progress_info = False
        if given := columns(config):
            reporter._tw.fullwidth = given
        if config.option.reportchars == _DEFAULT_CHARACTERS:
            reporter.reportchars = ""
        if actions.is_on(os.environ):
            log = config.stash[STEP_LOG] = StepLog(reporter.write_line)
            log.close()


def teller(config: pytest.Config) -> Callable[[str], None]:
    """Prints a sentence on the terminal at once, fit for one line, also while pytest captures output."""
    from reports.safe_text import one_line  # imported late: most runs say nothing

    reporter, capture = (config.pluginmanager.getplugin(name) for name in ("terminalreporter", "capturemanager"))

    def tell(words: str) -> None:
        if reporter is None or config.option.verbose < 0:
            return
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            with waiting.quiet(config):
                reporter.write_line(filled(config, one_line(words)))

    return tell


def group(config: pytest.Config, title: str) -> None:
    """Begin a group of lines in the log of a GitHub Actions step, or end it where the title is empty."""
    if (log := config.stash.get(STEP_LOG, None)) is not None:
        log.say(actions.command("group", title) if title else actions.command("endgroup"))


def hold_back(config: pytest.Config, stated: Callable[[pytest.TestReport], bool]) -> None:
    """Let pytest not print the failures that the summary tells: it says each once, with what to do."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        failed = reporter.stats.pop("failed", [])
        config.stash[_HELD_BACK] = failed
        if others := [report for report in failed if not stated(report)]:
            reporter.stats["failed"] = others


def put_back(config: pytest.Config, reporter: pytest.TerminalReporter) -> None:
    """Let pytest count the failures, and list them where ``-r`` asks for that."""
    if failed := config.stash.get(_HELD_BACK, []):
        reporter.stats["failed"] = failed


def show(config: pytest.Config, result: Result, count: int, planned: int) -> None:
    """One requirement's line. Until the next one begins, nothing is awaited, or workers are.

    Without ``-v`` the summary says of those with nothing to judge, by their reasons, what lines of their own would repeat.
    """
    parallel = bool(getattr(config.option, "tx", None)) and count < planned
    waiting.begin(config, f"workers have judged {count} of {planned} requirements, and nothing new" if parallel else "")
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.option.verbose < (result.verdict is Verdict.NOT_APPLICABLE):
        return
    place = f"{count:3}/{planned}" if planned else f"{count:3}"
    judged = f"{result.judged}/{result.total}"
    with waiting.quiet(config):
        reporter.ensure_newline()
        name, verdict = f"{place} {result.id:<9}", f"{column(result.verdict):<13}"
        reporter.write(name)
        reporter.write(verdict, **markup(result.verdict))
        numbers = f"{judged:>11} {result.duration_seconds:6.1f} s  "
        before = len(name + verdict + numbers)
        reporter.write_line(numbers + (wrapped(result.title, before, reporter._tw.fullwidth) if _has_width(config) else result.title))


def columns(config: pytest.Config) -> int:
    """Of ``--columns``; 0 where it was not given."""
    return int(config.getoption("columns", None) or 0)


def _has_width(config: pytest.Config) -> bool:
    """Whether something says how wide the output is."""
    return bool(config.pluginmanager.getplugin("terminalreporter").isatty or columns(config) or os.environ.get("COLUMNS"))


def _wrapping_width(config: pytest.Config) -> int:
    """Where sentences wrap at words; 0 where a program may read them line by line, which also has COLUMNS at times."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    return int(reporter._tw.fullwidth) if reporter is not None and (reporter.isatty or columns(config)) else 0


def filled(config: pytest.Config, line: str) -> str:
    """A sentence in lines of the width that it is read at."""
    width = _wrapping_width(config)
    return textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) if width else line


def wrapped(title: str, before: int, width: int) -> str:
    """A title that begins behind ``before`` columns and goes on below itself, where a terminal has room for that."""
    lines = textwrap.wrap(title, max(width - before, _LEAST), break_on_hyphens=False)
    return f"\n{' ' * before}".join(lines)


def keep_verdict(config: pytest.Config, report: Report, file: Path, chaos: ChaosReport | None) -> None:
    """Keep the verdict's line for the very end. pytest asks for no summary with ``--no-summary`` or after an internal error."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        from reports.terminal.summary import verdict_line  # imported late: rich is not needed before

        width, colour = _wrapping_width(config), reporter._tw.hasmarkup
        config.stash[VERDICT] = verdict_line(report, width=width, colour=colour, report_path=_shown(file), chaos=chaos)


def summary(reporter: pytest.TerminalReporter, report: Report, file: Path, chaos: ChaosReport | None) -> None:
    """The tables of areas and experiments, then what needs attention. The verdict's line is not among them: it is for the very end."""
    from reports.terminal.summary import summary as render  # imported late: rich is not needed before

    writer = reporter._tw
    width = writer.fullwidth if _has_width(reporter.config) else PIPE_WIDTH
    wraps = bool(_wrapping_width(reporter.config))
    text = render(report, width=width, colour=writer.hasmarkup, report_path=_shown(file), chaos=chaos, wraps=wraps)
    above, _, _last = text.rstrip("\n").rpartition("\n")
    reporter.write(actions.harmless(above.rstrip("\n")) + "\n")
    if (log := reporter.config.stash.get(STEP_LOG, None)) is not None:
        log.say(*actions.annotate(report, chaos))


def conclude(config: pytest.Config) -> None:
    """Write the verdict as the last line."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    log = config.stash.get(STEP_LOG, None)
    if log is not None:
        log.reopen()
    if reporter is not None and (line := config.stash.get(VERDICT, "")):
        waiting.begin(config, "")
        with waiting.quiet(config):
            reporter.write_line(actions.harmless(line))


def _shown(file: Path) -> str:
    if not file.is_file():
        return "not written"
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)
