"""The pytest hooks of a run, in their order: open the target, read it once, judge, report, decide the exit code."""

import argparse
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Generator
from contextlib import suppress
from pathlib import Path
from types import FrameType

import msgspec
import pytest
from _pytest._code.code import ExceptionChainRepr, ReprEntryNative, ReprTraceback

from conformance.catalogue import CatalogueError, load_catalogue
from conformance.plugin import progress, selecting, waiting
from conformance.plugin.baseline import read_baseline, read_waivers
from conformance.plugin.opening import WORKER_KEY, OpenTarget, WorkerHandover, check_policy_names, open_target, reopen
from conformance.plugin.options import add_options, judges, left_out, read_options, refuse_unread
from conformance.plugin.recording import chaos_record, created_keys, finish, lost_workers, prepare_folder, write_unopened
from conformance.plugin.selecting import Failures
from conformance.plugin.session import EVIDENCE, REQUIREMENT, RESULT_ATTRIBUTE, SECONDS, STATE, State
from conformance.plugin.verdict import ExitCode, check_preconditions, conclude, failure_text, worse_of
from conformance.plugin.waiting import settle
from conformance.plugin.waves import Waves
from conformance.requirement import Requirement, needs_of
from fixtures.cluster import access
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.model.nodes.chosen import NoneSelected, NoSuchNode
from fixtures.ownership import owned
from fixtures.policy.platforms import chosen_by_marks
from fixtures.snapshot.collect import collect
from fixtures.snapshot.simulated_nodes import describe
from fixtures.snapshot.state import Snapshot
from fixtures.system import private_files
from fixtures.system.process import collect_rarely
from fixtures.text import typed
from fixtures.verdict.findings import AT_THE_END
from fixtures.verdict.record import Access, Result, Verdict
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from reports.terminal.actions import harmless

UNREACHABLE = "gpu_conformance_unreachable"
"""What a worker says that could not open the cluster again: its kubeconfig may be gone by then."""

VALUES_READ = "gpu_conformance_values_read"
"""What a worker says at its end: the values of ConfigMaps that it read, for evidence to keep."""

REFUSED = "gpu_conformance_refused"
"""What a worker says of options that contradict each other, as only the collected tests show."""

WAVES = pytest.StashKey[Waves]()
FAILURES = pytest.StashKey[Failures]()
GROUP = "gpu-conformance-workload"
"""xdist group of everything that asks the cluster something: these run one after the other on one worker."""

ASKING = "gpu-conformance-asking"
"""xdist group of what reads and asks the cluster for more than lists: each question is asked once in a run."""

GROUPED = "loadgroup"
"""xdist's way to spread tests that keeps groups together."""

ROOT = Path(__file__).resolve().parents[2]
SUITES = (ROOT / "conformance", ROOT / "chaos")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the options of the suite. Raises :class:`pytest.UsageError` where another plugin has one of them."""
    try:
        add_options(parser)
    except argparse.ArgumentError as error:
        hint = "; leave out allure-pytest with '-p no:allure_pytest', as the settings of the checkout do" * ("--alluredir" in str(error))
        raise pytest.UsageError(f"an option of the suite is another plugin's too: {error}{hint}") from None


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Read catalogue and options. Runs before xdist decides how tests are spread."""
    collect_rarely()
    config.addinivalue_line("markers", "requirement(id): the requirement of the catalogue that this test judges")
    if config.option.help:
        return
    if not _selects_suite(config):
        refuse_unread(config)
        return
    private_files.keep_private()
    worker = getattr(config, "workerinput", {})
    try:
        catalogue = load_catalogue()
    except CatalogueError as error:
        raise pytest.UsageError(str(error)) from None
    options = read_options(config, catalogue)
    if worker:
        handover = typed.decode(worker[WORKER_KEY].encode(), WorkerHandover)
        state = State(catalogue, options, handover.run_id, str(worker["workerid"]))
        try:
            state.opened = reopen(handover)
        except ClusterUnreachable as error:  # told to the main process, which ends the run: raised here, it is an internal error of xdist's
            config.workeroutput[UNREACHABLE] = str(error)  # type: ignore[attr-defined]
            config.stash[STATE] = state
            return
        state.snapshot = Snapshot.load(Path(handover.snapshot_file))
        state.lock_file = handover.snapshot_file + ".lock"
        if state.opened.cluster is not None:
            state.opened.cluster.learn_versions(state.snapshot.versions, state.snapshot.unknown)
        state.needs = needs_of(selecting.selected(catalogue, options), options.access)
        config.option.loadgroup = handover.grouped  # before xdist writes groups into the names of tests
    else:
        state = State(catalogue, options, owned.new_run_id())
    config.stash[STATE] = state
    config.stash[FAILURES] = Failures(config.rootpath, SUITES)
    config.pluginmanager.register(config.stash[FAILURES], "gpu-conformance-failures")
    if getattr(config.option, "dist", "no") == "load":  # -n means it, where no --dist is named
        config.option.dist = GROUPED  # the same, but probes stay on one worker
    if getattr(config.option, "maxworkerrestart", "") is None:
        config.option.maxworkerrestart = "0"  # xdist's group scheduler ends in an internal error, or never, when a worker is replaced
    _end_as_by_ctrl_c()


def _end_as_by_ctrl_c() -> None:
    """Let SIGTERM and SIGHUP end a run like Ctrl-C: fixtures are torn down, nothing of the run stays behind.

    nohup ignores SIGHUP, and so does the run then. After a hang-up nothing can be written to the terminal, and the teardown goes on.
    """
    terminals = {os.fstat(descriptor).st_rdev for descriptor in (1, 2) if os.isatty(descriptor)}
    numbers = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGHUP and terminals:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in map(int, os.listdir("/dev/fd")):  # pytest and others have copies of their own
                with suppress(OSError):
                    if os.fstat(descriptor).st_rdev in terminals:
                        os.dup2(nowhere, descriptor)
        raise KeyboardInterrupt

    for number in numbers:
        signal.signal(number, interrupt)


def _selects_suite(config: pytest.Config) -> bool:
    """Whether the arguments name the suite: the project's own tests start no target."""
    for argument in config.args:
        path = Path(str(argument).partition("::")[0])
        path = path if path.is_absolute() else config.invocation_params.dir / path
        path = path.resolve()
        if any(suite == path or suite in path.parents or path in suite.parents for suite in SUITES):
            return True
    return False


def _state(config: pytest.Config) -> State | None:
    return config.stash.get(STATE, None)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Open the target; under xdist also read it, because workers get the snapshot from here."""
    state = _state(session.config)
    if state is None or state.worker or not judges(session.config):
        return
    waivers = read_waivers(state.options, state.catalogue, state.started)
    state.opened = _open(state)
    check_policy_names(state.opened.policy, state.catalogue)
    state.baseline = read_baseline(state.options)
    state.opened.handover.waivers = waivers
    prepare_folder(state, session.config)
    session.config.pluginmanager.register(Recorder(session.config, state), "gpu-conformance-recorder")
    progress.prepare(session.config)
    cluster = state.opened.cluster
    waiting.follow(session.config, cluster.waits.now if cluster is not None else list)
    workers = getattr(session.config.option, "tx", None)
    if workers or state.options.nodes:  # whoever names a node that is not there learns it before anything is judged
        _read_early(state, progress.teller(session.config))
    if workers:
        folder = Path(tempfile.mkdtemp(prefix="gpu-conformance-run-"))
        file = folder / "snapshot.json"
        state.snapshot.save(file)
        state.opened.handover.snapshot_file = str(file)
        session.config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def _read_early(state: State, say: Callable[[str], None]) -> None:
    """Read the cluster before tests are collected. Raises :class:`pytest.UsageError` if it lacks a node that ``--nodes`` names.

    With ``--if-any`` a selector that matches none leaves nothing to judge, which is good.
    """
    try:
        _read_cluster(state, selecting.selected(state.catalogue, state.options), say)
    except NoSuchNode as error:
        if state.options.if_any and isinstance(error, NoneSelected):
            pytest.exit(harmless(f"gpu-conformance: nothing to judge: {error}"), returncode=int(ExitCode.CONFORMANT))
        raise pytest.UsageError(harmless(f"--nodes: {error}")) from None
    except (Inconclusive, NotApplicable) as error:
        pytest.exit(harmless(f"gpu-conformance: --nodes: {error}"), returncode=int(ExitCode.INCONCLUSIVE))


def _open(state: State) -> OpenTarget:
    """The target. If it cannot be opened, a report folder that was named gets a junit.xml that says so: CI systems show nothing else."""
    try:
        return open_target(state.options, state.run_id)
    except (pytest.UsageError, pytest.exit.Exception) as error:
        if state.options.report_dir:
            write_unopened(Path(state.options.report_dir), str(error))
        raise


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Hand the target and the snapshot to an xdist worker."""
    state = _state(node.config)  # type: ignore[attr-defined]
    if state is not None:
        state.opened.handover.grouped = node.config.option.dist == GROUPED  # type: ignore[attr-defined]
        node.workerinput[WORKER_KEY] = msgspec.json.encode(state.opened.handover).decode()  # type: ignore[attr-defined]


def _read_cluster(state: State, requirements: list[Requirement], say: Callable[[str], None]) -> None:
    """Read what the requirements need, once. Trouble with one kind, or with discovery, is the listing's."""
    state.needs = needs_of(requirements, state.options.access)
    if state.opened.offline is not None:
        state.snapshot = state.opened.offline
        _tell_simulated(state, say)
        _adopt_presets(state, say)
        return
    assert state.opened.cluster is not None
    if state.options.settle:
        settle(state.opened.cluster, state.opened.policy, state.opened.target.kubernetes_version, state.options.settle, say)
    state.snapshot = collect(
        state.opened.cluster, ["nodes", "pods", "namespaces", *state.needs.reads], version=state.opened.target.kubernetes_version
    )
    state.opened.target.cluster_uid = state.snapshot.cluster_uid
    _tell_simulated(state, say)
    _adopt_presets(state, say)
    served = [key for key in created_keys(state) if state.opened.cluster.serves(key)]
    state.never_created = frozenset(key for key in served if access.refused(state.opened.cluster, key, access.REMOVAL_VERBS))
    state.removable = frozenset(served) - state.never_created


def _tell_simulated(state: State, say: Callable[[str], None]) -> None:
    """Describe the target by its nodes, and say so where the header could not: before the nodes were read."""
    from reports import phrases  # imported late, as all of reports

    target = state.opened.target
    reported = phrases.banner(target)
    describe(target, state.snapshot.listing("nodes"))
    if target.simulated and (words := phrases.banner(target)) != reported:
        say(f"*** {words} ***")


def _adopt_presets(state: State, say: Callable[[str], None]) -> None:
    """Lay the platform's presets below the owner's policy: those that were named, else those that the cluster's marks choose."""
    left_open = not state.options.platform and not state.opened.policy.platform
    if left_open and (found := chosen_by_marks(state.snapshot)):
        state.opened.adopt(found)
    for chosen in state.opened.presets:
        say(f"platform: {chosen.name} ({chosen.why})")


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """End a worker that has no cluster before it collects anything."""
    if UNREACHABLE in getattr(session.config, "workeroutput", {}):
        pytest.exit("the cluster could not be opened", returncode=int(ExitCode.USAGE))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tie each test to its requirement, leave out what was not asked for, keep probes together."""
    selecting.add_names(config, items)
    state = _state(config)
    if state is None:
        _refuse_unjudged(items)
        return
    unwanted = []
    seen: dict[str, str] = {}
    for item in items:
        mark = item.get_closest_marker("requirement")
        if mark is None:
            if SUITES[0] in item.path.parents:
                raise pytest.UsageError(f"{item.nodeid}: a test of the suite must carry @requirement(ID)")
            continue
        try:
            requirement = state.catalogue.get(str(mark.args[0]))
        except CatalogueError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
        if requirement.id in seen:
            raise pytest.UsageError(f"{requirement.id} is judged twice: {seen[requirement.id]} and {item.nodeid}")
        seen[requirement.id] = item.nodeid
        item.stash[REQUIREMENT] = requirement
        if state.worker and requirement.access is not Access.READ:  # the marker is xdist's, which may be absent
            item.add_marker(pytest.mark.xdist_group(GROUP))
        elif state.worker and "asks" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group(ASKING))
        if left_out(requirement, state.options):
            unwanted.append(item)
    broken = config.stash[FAILURES].hit
    areas = {area.area for area in state.catalogue.areas if broken(SUITES[0] / area.area.lower())}
    state.left_out = selecting.not_collected(config, state.catalogue, state.options, seen, areas)
    if unwanted:
        config.hook.pytest_deselected(items=unwanted)
        items[:] = [item for item in items if item not in unwanted]
    order = list(state.catalogue.by_id)
    items.sort(key=lambda item: order.index(item.stash[REQUIREMENT].id) if REQUIREMENT in item.stash else len(order))


def _refuse_unjudged(items: list[pytest.Item]) -> None:
    """Requirements came in by a name that is no path, such as ``--pyargs conformance.fence``: without a target none can be judged."""
    for item in items:
        if item.get_closest_marker("requirement") is not None:
            raise pytest.UsageError(f"{item.nodeid}: the suite is selected by a path: expected conformance, chaos or a path in them")


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember which requirements an option left out, and which option that was."""
    for item in items:
        state = _state(item.config)
        if state is not None and (requirement := item.stash.get(REQUIREMENT, None)) is not None:
            reason = left_out(requirement, state.options) or selecting.deselected_by(item.config, item.nodeid)
            state.left_out.setdefault(requirement.id, reason)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a run that leaves out what it requires. A worker needs no more than the selected requirements do, and hands on what was left
    out to the process that writes the record.
    """
    state = _state(session.config)
    if state is None:
        return
    problem = next((f"--require {id_}: {state.left_out[id_]} leaves it out" for id_ in state.options.require if id_ in state.left_out), "")
    if problem and not state.worker:
        raise pytest.UsageError(problem)
    if not state.worker:
        return
    if problem:
        session.config.workeroutput[REFUSED] = problem  # type: ignore[attr-defined]
        pytest.exit(problem, returncode=int(ExitCode.USAGE))
    asked = [item.stash[REQUIREMENT] for item in session.items if REQUIREMENT in item.stash]
    state.needs = needs_of(asked, state.options.access)
    session.config.workeroutput[WORKER_KEY] = state.left_out  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Read the cluster before the first requirement, then see whether this one can be judged at all."""
    state = _state(item.config)
    requirement = item.stash.get(REQUIREMENT, None)
    if state is None or requirement is None:
        return
    if not state.has_snapshot:
        waiting.begin(item.config, "reading the cluster")
        selected = [other.stash[REQUIREMENT] for other in item.session.items if REQUIREMENT in other.stash]
        _read_cluster(state, selected, progress.teller(item.config))
    waiting.begin(item.config, requirement.id)
    check_preconditions(requirement, state)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Let probes that do not disturb each other wait for their pods together."""
    state = _state(pyfuncitem.config)
    if state is None or REQUIREMENT not in pyfuncitem.stash:
        return None
    waves = pyfuncitem.config.stash.setdefault(WAVES, Waves(state))
    return waves.call(pyfuncitem) or None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn what the requirement found into its result, and the result into pytest's outcome."""
    state = _state(item.config)
    requirement = item.stash.get(REQUIREMENT, None)
    if state is None or requirement is None or not _concludes(call):
        return (yield)
    error = call.excinfo.value if call.excinfo is not None else None
    if call.excinfo is not None and isinstance(error, NotApplicable | Inconclusive):
        call.excinfo.traceback = call.excinfo.traceback[:0]  # never shown, and drawing it is a fifth of a run's time
    report = yield
    if error is not None and not isinstance(error, Exception):
        return report
    evidence = item.stash.get(EVIDENCE, None) or state.evidence(requirement)
    if error is None and not evidence.asked:  # no requirement ends so: a plugin ended its test before
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, "a plugin of pytest ended its test before it asked anything")
        return report
    result = conclude(requirement, evidence, error, item.stash.get(SECONDS, call.duration), state)
    result.line = (item.location[1] or 0) + 1  # pytest counts from 0
    setattr(report, RESULT_ATTRIBUTE, msgspec.json.encode(result).decode())
    if result.verdict in (Verdict.PASSED, Verdict.WARNED, Verdict.WAIVED):
        report.outcome, report.longrepr = "passed", None
    elif result.verdict is Verdict.NOT_APPLICABLE:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"{result.reason_code}: {result.message}")
    else:
        report.outcome = "failed"
        if result.verdict is not Verdict.ERROR or isinstance(error, (NotApplicable, Inconclusive)):
            report.longrepr = failure_text(result)
    return report


def _concludes(call: pytest.CallInfo[None]) -> bool:
    """The call phase concludes a requirement; so does a setup that failed."""
    return call.when == "call" or (call.when == "setup" and call.excinfo is not None)


class Recorder:
    """Takes the results out of test reports, in the process that writes the record."""

    def __init__(self, config: pytest.Config, state: State) -> None:
        self._config = config
        self._state = state

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the result and show it."""
        text = getattr(report, RESULT_ATTRIBUTE, None)
        if text is None:
            return
        result = typed.decode(text.encode(), Result)
        if (earlier := self._state.results.get(result.id)) is not None:
            result = worse_of(earlier, result)
        self._state.results[result.id] = result
        if result.reason_code != AT_THE_END:  # shown once it is judged
            progress.show(self._config, result, len(self._state.results), self._state.planned)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Know how many requirements are to come."""
        self._state.planned = sum(REQUIREMENT in item.stash for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        """Take from a worker what was left out; all of them have collected the same. One that ended with an error was killed or crashed.

        Raises :class:`pytest.UsageError` for one that refused the run or could not open the cluster: no worker has judged anything then.
        """
        reported = getattr(node, "workeroutput", None) or {}
        if REFUSED in reported:
            raise pytest.UsageError(reported[REFUSED])
        if UNREACHABLE in reported:
            raise pytest.UsageError(harmless(f"a worker of -n could not open the cluster again: {reported[UNREACHABLE]}"))
        if error:
            self._state.lost_workers.append(str(getattr(getattr(node, "gateway", None), "id", "one")))
        self._state.left_out = dict(reported.get(WORKER_KEY) or self._state.left_out)
        if self._state.has_snapshot:
            self._state.snapshot.values_read.update(map(tuple, reported.get(VALUES_READ, ())))

    @pytest.hookimpl(tryfirst=True)
    def pytest_internalerror(self, excrepr: object) -> None:
        """Say in words what xdist ends in when a worker is killed: its traceback would tell nothing."""
        if self._state.lost_workers and isinstance(excrepr, ExceptionChainRepr):
            words = ReprEntryNative([lost_workers(self._state.lost_workers)])
            excrepr.chain = [(ReprTraceback([words], None, "native"), None, None)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: list[str]) -> None:
        """Know how many requirements are to come, from a worker's collection."""
        self._state.planned = len(ids)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Fold the lines of the requirements together in the log of a GitHub Actions step."""
    progress.group(session.config, "Requirements, one by one")
    try:
        return (yield)
    finally:
        progress.group(session.config, "")


def pytest_report_header(config: pytest.Config) -> list[str] | None:
    """Say what is judged, loudly when it is simulated."""
    state = _state(config)
    if state is None or state.worker or not state.is_open:
        return None
    return [progress.filled(config, line) for line in (*progress.header(state), *_reported_of_workers(config, state))]


def _reported_of_workers(config: pytest.Config, state: State) -> list[str]:
    """What is to be said of a --dist that spreads probes over workers."""
    spread = getattr(config.option, "dist", "no")
    if not getattr(config.option, "tx", None) or spread in ("no", GROUPED) or state.options.access is Access.READ:
        return []
    return [f"--dist {spread} gives probes to several workers, and they wait for each other: leave it out, and they run on one"]


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Count verdicts by their names. Progress is shown a line per requirement, so letters are empty."""
    text = getattr(report, RESULT_ATTRIBUTE, None)
    if text is None:
        return None
    result = typed.decode(text.encode(), Result)
    return "" if result.reason_code == AT_THE_END else str(result.verdict), "", ""


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Look for what the run left behind, write the reports, set the exit code."""
    state = _state(session.config)
    if state is not None and state.worker and state.has_snapshot:
        session.config.workeroutput[VALUES_READ] = sorted(state.snapshot.values_read)  # type: ignore[attr-defined]
    if state is None or state.worker or not state.is_open or exitstatus == ExitCode.USAGE:
        return
    waiting.begin(session.config, "cleaning up and writing the report")
    if exitstatus == ExitCode.INTERRUPTED and _ended_by_failures(session.config):
        exitstatus = ExitCode.NOT_CONFORMANT
    if state.lost_workers and (exitstatus == ExitCode.INTERNAL_ERROR or not state.results):
        exitstatus = ExitCode.INCONCLUSIVE  # xdist counts a lost worker as no test, as a failed one, or as an error of its own
    state.failures = session.config.stash[FAILURES].sentences
    report, session.exitstatus = finish(state, session.config, int(exitstatus))
    waiting.begin(session.config, "")
    session.config.stash[progress.REPORT] = report
    if state.report_folder is not None:
        progress.keep_verdict(session.config, report, _shown_file(state, state.report_folder), chaos_record(state, report))
    progress.hold_back(session.config, _is_in_the_summary)


def _ended_by_failures(config: pytest.Config) -> bool:
    """Whether ``-x`` or ``--maxfail`` ended a run with workers: xdist says "interrupted" then, where pytest alone says "failed"."""
    workers, most = config.pluginmanager.get_plugin("dsession"), config.option.maxfail
    return workers is not None and bool(most) and workers.countfailures >= most


def _is_in_the_summary(report: pytest.TestReport) -> bool:
    """Whether the table of requirements or of experiments tells the failure. What ended with a traceback needs that too."""
    return hasattr(report, RESULT_ATTRIBUTE) or (isinstance(report.longrepr, str) and "::test_experiment[" in report.nodeid)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the tables of areas and experiments, and what needs attention."""
    state = _state(config)
    report = config.stash.get(progress.REPORT, None)
    progress.put_back(config, terminalreporter)
    if state is not None and report is not None and state.report_folder is not None:
        progress.summary(terminalreporter, report, _shown_file(state, state.report_folder), chaos_record(state, report))
        for complaint in state.complaints:
            terminalreporter.write_line(f"gpu-conformance: {complaint}", red=True)


def _shown_file(state: State, folder: Path) -> Path:
    """The file of a run that its last line names."""
    return folder / ("report.json" if state.options.record_only else "report.html")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the verdict as the last line, and end the embedded cluster."""
    state = _state(config)
    progress.conclude(config)
    if state is not None and state.is_open:
        state.opened.close()
