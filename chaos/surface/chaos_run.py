"""A run of chaos experiments: opens the cluster that they are to act on, and has the pytest hooks.

:mod:`chaos.surface.plugin` registers them with ``--chaos`` only. What nobody has allowed is refused before anything is touched.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from chaos.catalogue import FOLDER, SelectionError, load_all, select_experiments
from chaos.cluster import namespaces
from chaos.engine.campaign import Campaign, CampaignSetup, Refused, learn_cluster
from chaos.engine.recover import preview, recover
from chaos.engine.turns import Turn, expectations, passed_before, pool, turns
from chaos.ledger.bounds import Terms
from chaos.model.experiment import DEFAULT_MAX_LEVEL, TYPED_LEVEL, Experiment, Level
from chaos.model.records import LeaseRefused, LedgerError
from chaos.observe.user_conditions import ask
from chaos.observe.view import NoData
from chaos.safety.gates import Settings, SettingsError, settings_of
from chaos.surface.options import SCENARIO, ChaosOptions
from chaos.verdict.judge import result_of_error, result_without_run
from conformance.cli.target import Consent, NotConfirmed, confirm
from conformance.plugin import selecting, waiting
from conformance.plugin.opening import OpenTarget
from conformance.plugin.session import STATE, State
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.policy.allowlist import not_allowed
from fixtures.simulator.interface import StartError
from fixtures.system.file_search import folder_problem
from fixtures.verdict.chaos_record import ChaosResult
from fixtures.verdict.record import TargetKind, Verdict
from reports import chaos_phrases
from reports.safe_text import one_line
from reports.verdicts import column, markup


def campaign_setup(
    opened: OpenTarget, chaos_options: ChaosOptions, experiments: Sequence[Experiment], run_id: str, folder: Path
) -> CampaignSetup:
    """What a campaign needs. Raises :class:`chaos.engine.campaign.Refused` with one line that says what was expected."""
    if opened.cluster is None or opened.target.kind is TargetKind.SNAPSHOT:
        raise Refused("a saved snapshot cannot be broken: name a cluster (--kubeconfig, --in-cluster, --simulate, --local)")
    ours = opened.embedded is not None
    try:
        cluster = _as_chaos_account(opened, opened.cluster)
        access = learn_cluster(cluster, opened.target)
        settings = settings_of(
            opened.policy,
            clusters=(*chaos_options.clusters, *([opened.target.cluster_uid] if ours else [])),
            max_level=chaos_options.max_level,
            confirm=chaos_options.confirm or (cluster.context if ours else ""),
            nodes=(chaos_options.node,) if chaos_options.node else (),
            stop_if=chaos_options.stop_if,
            steady_if=chaos_options.steady_if,
            detect_if=chaos_options.detect_if,
        )
        if chaos_options.node and cluster.get("nodes", chaos_options.node).status == 404:
            raise Refused(f"--chaos-target {chaos_options.node}: the cluster has no such node")
    except SettingsError as error:
        raise Refused(str(error)) from None
    except ApiTrouble as trouble:
        raise Refused(f"the cluster could not be asked: {trouble.message}") from None
    names = {name for name in (opened.target.cluster_uid, cluster.context) if name}
    shown = " or ".join(sorted(names)) or "its UID"
    if not ours and (refusal := not_allowed(opened.target.cluster_uid, cluster.context, settings.allowed)):
        raise Refused(refusal)
    destructive = [experiment.id for experiment in experiments if experiment.extension.level >= TYPED_LEVEL]
    if (destructive or chaos_options.confirm) and settings.confirmed not in names:
        raise Refused(
            f"--chaos-confirm: expected {shown}, the name of the cluster that {', '.join(destructive) or 'this'} may destroy parts of"
        )
    if unread := _unread_condition(settings):
        raise Refused(unread)
    handover = opened.handover
    return CampaignSetup(
        cluster=cluster,
        access=msgspec.structs.replace(
            access,
            kubeconfig=str(Path(handover.kubeconfig).resolve()) if handover.kubeconfig else "",
            context=handover.context or cluster.context or None,  # a current-context may be another one by the time that children read it
            in_cluster=handover.in_cluster,
        ),
        target=opened.target,
        policy=opened.policy,
        settings=settings,
        run_id=run_id,
        folder=folder,
        ours=ours,
        node=chaos_options.node,
    )


def _unread_condition(settings: Settings) -> str:
    """The first condition of a user's of which nothing tells whether it holds, and why; empty where all can be read.

    They are asked before anything is broken: afterwards the run could say of no experiment what they show.
    """
    given = (
        *(("--stop-if or chaos.stopIf", one) for one in settings.stop_if),
        *(("--steady-if or chaos.steadyIf", one) for one in settings.steady_if),
        *(("--detect-if or chaos.detectIf", one) for one in settings.detect_if),
    )
    for where, condition in given:
        try:
            ask(condition)
        except NoData as error:
            return f"{where} of the policy: {condition}: nothing tells whether it holds: {error}"
    return ""


def _as_chaos_account(opened: OpenTarget, cluster: Cluster) -> Cluster:
    """On the suite's own local control plane: a session of the account that the project ships for chaos, with its rights and no other."""
    if opened.embedded is None:
        return cluster
    try:
        path = opened.embedded.chaos_kubeconfig()
    except StartError as error:
        raise Refused(f"--local: {error}") from None
    if path is None:
        return cluster
    found = Cluster.from_kubeconfig(path)
    opened.cluster, opened.handover.kubeconfig = found, str(path)
    made = namespaces.uid_of_shared(found)  # with the account, and by us
    opened.policy = msgspec.structs.replace(opened.policy, chaos=msgspec.structs.replace(opened.policy.chaos, namespace_uid=made))
    return found


RESIDUE_EXIT = 11


class Session:
    """What the hooks of one chaos run share."""

    def __init__(self, chaos_options: ChaosOptions) -> None:
        self.options = chaos_options
        self.known = load_all(Path(chaos_options.folder) if chaos_options.folder else FOLDER)
        self.experiments = self.known
        self.turns: list[Turn] = []
        self.carried: dict[str, ChaosResult] = {}
        """Results of turns that an earlier run has passed, by id."""
        self.spent = ""
        """Why no further node is touched; empty while one may be."""
        self.results: list[ChaosResult] = []
        self.left_out: dict[str, str] = {}
        """Ids of chosen turns that pytest's options left out, and which option that was."""
        self.residue: list[str] = []
        self.notes: list[str] = []
        self.campaign: Campaign | None = None


SESSION = pytest.StashKey[Session]()


def prepare(config: pytest.Config, chaos_options: ChaosOptions) -> None:
    """Load the experiments, before a cluster is opened. Raises :class:`pytest.UsageError`."""
    try:
        session = Session(chaos_options)
        level = Level(DEFAULT_MAX_LEVEL if chaos_options.max_level is None else chaos_options.max_level)
        session.experiments = select_experiments(session.experiments, chaos_options.experiments, level)
    except SelectionError as error:
        raise pytest.UsageError(str(error)) from None
    if config.option.local and config.option.simulate is None:
        config.option.simulate = SCENARIO  # the one that has something to recover
    session.turns = turns(session.experiments)
    config.stash[SESSION] = session
    config.pluginmanager.register(Progress(config, session), "gpu-conformance-chaos-progress")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse clusters that nobody has allowed; recover first if asked to."""
    chaos, state = _both(session.config)
    if chaos is None or state is None or not state.is_open:
        return
    folder = state.report_folder
    if folder is None:
        raise pytest.UsageError("chaos experiments need a report folder")
    try:
        setup = campaign_setup(state.opened, chaos.options, chaos.experiments, state.run_id, folder.resolve())
        if chaos.options.recover:
            _recover(session.config, chaos, setup)
        chaos.campaign = Campaign(setup)
        chaos.campaign.__enter__()
        chaos.notes += chaos.campaign.forged
        _take_turns(chaos, setup)
    except Refused as error:
        raise pytest.UsageError(str(error)) from None


def turns_of(setup: CampaignSetup, chaos_options: ChaosOptions, experiments: Sequence[Experiment]) -> list[Turn]:
    """Each experiment once, or on each node of the pool. Raises :class:`Refused` for a pool without a node."""
    if not chaos_options.per_node:
        return turns(experiments)
    label, devices = chaos_options.each or "", setup.policy.accelerators.resources
    try:
        nodes = pool(list(setup.cluster.each("nodes")), devices, label, chaos_options.each_count)
    except ApiTrouble as trouble:
        raise Refused(f"--each: nodes could not be listed: {trouble.message}") from None
    if not nodes:
        raise Refused(f"--each {label}: there is no such GPU node beside those of the control plane")
    return turns(experiments, nodes)


def _take_turns(chaos: Session, setup: CampaignSetup) -> None:
    """Find out which turns there are and which of them are done. Raises :class:`Refused`."""
    chaos.turns = turns_of(setup, chaos.options, chaos.experiments)
    if chaos.options.resume:
        folder = Path(chaos.options.resume)
        if why := folder_problem(folder):
            raise Refused(f"--resume {folder}: {why}")
        given = setup.settings
        found = passed_before(
            folder,
            chaos.turns,
            setup.target.cluster_uid,
            setup.target.kind,
            lambda one: expectations(one, setup.policy, given.stop_if, given.steady_if, given.detect_if),
        )
        try:
            found.keep(setup.folder)
        except OSError as error:
            raise Refused(f"--resume {folder}: it could not be copied: {error.strerror or error}") from None
        chaos.carried, chaos.notes = found.results, [*chaos.notes, *found.notes]


def _recover(config: pytest.Config, chaos: Session, setup: CampaignSetup) -> None:
    """Show the plan, have it confirmed where the cluster is not this run's own, and carry it out. Raises :class:`Refused`."""
    try:
        terms = Terms.of(chaos.known, setup.policy)
        plan, done = preview(setup.cluster, terms=terms)
        if plan:
            if setup.ours:
                chaos.notes += [f"recovering: {line}" for line in plan]
            else:
                _confirm(config, setup, plan)
            done = recover(setup.cluster, terms=terms)
    except (LeaseRefused, LedgerError) as error:
        raise Refused(str(error)) from None
    except NotConfirmed as error:
        raise Refused(f"--chaos-recover: {error}") from None
    except ApiTrouble as trouble:
        raise Refused(f"--chaos-recover: {trouble.message}") from None
    chaos.notes.append(f"recovered {done.restored} changes of {len(done.runs)} earlier runs")
    if not done.clean:
        lines = [*map(str, done.residue), *done.leftovers, *done.unreadable]
        pytest.exit("gpu-conformance: not recovered: " + "; ".join(lines), returncode=RESIDUE_EXIT)


def _confirm(config: pytest.Config, setup: CampaignSetup, plan: list[str]) -> None:
    """Ask as ``gpu-conformance chaos recover`` does. A name that ``--chaos-confirm`` gave was compared when the cluster was opened."""
    name = setup.cluster.context or setup.target.cluster_uid
    consent = Consent(allowed=setup.settings.allowed, yes=bool(setup.settings.confirmed), option=f"--chaos-confirm {shlex.quote(name)}")
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)  # whoever is asked can answer
    try:
        with waiting.quiet(config):
            confirm(setup.cluster, plan, consent)
    finally:
        if capture is not None:
            capture.resume_global_capture()
            capture.suspend_global_capture()  # before the first test, pytest captures what is typed and not what is printed


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say what is about to be done."""
    chaos, _ = _both(config)
    if chaos is None:
        return []
    ids = ", ".join(turn.id for turn in chaos.turns)
    return [f"CHAOS: {len(chaos.turns)} experiments change this cluster and put it back: {ids}", *chaos.notes]


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Remember which experiments an option left out."""
    for item in items:
        chaos, _ = _both(item.config)
        if chaos is not None and (id_ := _experiment_of(item)):
            chaos.left_out[id_] = selecting.deselected_by(item.config, item.nodeid)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where some experiments were collected, the paths left out those that were not. Otherwise something went wrong."""
    chaos, _ = _both(session.config)
    collected = {id_ for item in session.items if (id_ := _experiment_of(item))}
    if chaos is None or not (collected or chaos.left_out):
        return
    for turn in chaos.turns:
        if turn.id not in collected:
            chaos.left_out.setdefault(turn.id, "the tests named")


def _experiment_of(item: pytest.Item) -> str:
    """The id of the turn that a test carries out; empty for other tests."""
    callspec = getattr(item, "callspec", None)
    found = callspec.params.get("turn") if callspec is not None else None
    return found.id if isinstance(found, Turn) else ""


def record_result(request: pytest.FixtureRequest, result: ChaosResult) -> None:
    """Take a result into the record, show it, and stop the session where going on is not safe."""
    chaos = request.config.stash[SESSION]
    chaos.results.append(result)
    campaign = chaos.campaign
    chaos.spent = _spent(chaos)
    if campaign is not None and campaign.residue:
        request.session.shouldstop = f"residue: {'; '.join(campaign.residue)}"
    elif campaign is not None and campaign.stop.reason:
        request.session.shouldstop = f"chaos was stopped: {campaign.stop.reason}"
    elif chaos.spent:
        request.session.shouldstop = chaos.spent


def _spent(chaos: Session) -> str:
    """Why no further node of a pool is touched: too many did not come through. What was not begun has touched none."""
    if chaos.campaign is None or not chaos.options.per_node:
        return ""
    nodes = {turn.id: turn.node for turn in chaos.turns if turn.node}
    begun = (one for one in chaos.results if one.id in nodes and one.started_at and one.reason_codes != ["GateFailed"])
    failed = dict.fromkeys(nodes[one.id] for one in begun if one.verdict not in (Verdict.PASSED, Verdict.NOT_APPLICABLE))
    most = chaos.campaign.most_failed_nodes
    if len(failed) <= most:
        return ""
    return f"{', '.join(failed)} did not pass, and {most} such nodes are allowed (chaos.maxFailedNodes): no further node is touched"


class Progress:
    """A line for each experiment, written where pytest does not capture it."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._session = session
        self._shown = 0

    def pytest_runtest_logreport(self) -> None:
        """Show what was judged since the last report."""
        for result in self._session.results[self._shown :]:
            _show(self._config, result)
        self._shown = len(self._session.results)


def _show(config: pytest.Config, result: ChaosResult) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or config.option.verbose < 0:
        return
    waiting.begin(config, "")
    with waiting.quiet(config):
        reporter.ensure_newline()
        reporter.write(f"{result.id:<6} L{result.level} ")
        reporter.write(f"{column(result.verdict):<13}", **markup(result.verdict))
        text = f"{result.title}  {chaos_phrases.recovery_words(result)}".rstrip()
        reporter.write_line(f"{result.duration_seconds:6.1f} s  [{result.fidelity}] {one_line(text)}")


def pytest_report_teststatus(report: pytest.TestReport | pytest.CollectReport) -> tuple[str, str, str] | None:
    """Experiments have a line of their own instead of a letter."""
    if not isinstance(report, pytest.TestReport) or not report.nodeid.startswith("chaos/test_experiments.py::") or report.when != "call":
        return None
    return (report.outcome, "", "") if report.outcome != "skipped" else ("not_applicable", "", "")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was not put back and how it can be; the summary of the run has the table of experiments."""
    chaos, _ = _both(config)
    if chaos is None or not chaos.results:
        return
    for line in chaos.campaign.residue if chaos.campaign else ():
        terminalreporter.write_line(f"NOT PUT BACK: {one_line(line)}", red=True, bold=True)
    if chaos.campaign and chaos.campaign.residue:
        terminalreporter.write_line("put it back with `gpu-conformance chaos recover`, or by hand")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Clean up, let go of the cluster, and hand the results to the record of the run."""
    chaos, state = _both(session.config)
    if chaos is None or state is None or chaos.campaign is None:
        return
    chaos.campaign.close()
    state.chaos = _complete(chaos, state.opened.target.kind)
    state.residue += [line for line in chaos.campaign.residue if line not in state.residue]


def _complete(chaos: Session, kind: TargetKind) -> list[ChaosResult]:
    """A result for every chosen experiment, unless none was asked for in the end: what was to be carried out and was not, counts."""
    results = {result.id: result for result in chaos.results}
    missing = [turn for turn in chaos.turns if turn.id not in results]
    if not results and all(turn.id in chaos.left_out for turn in missing):
        return []
    for turn in missing:
        if option := chaos.left_out.get(turn.id):
            left_out = [chaos_phrases.LEFT_OUT]
            made = result_without_run(turn.experiment, kind, Verdict.NOT_APPLICABLE, left_out, f"left out by {option}")
        else:
            why = chaos.spent or "the run ended and has no result of it"
            made = result_of_error(turn.experiment, kind, Verdict.INCONCLUSIVE, chaos_phrases.CUT_SHORT, why)
        made.id = turn.id
        results[turn.id] = made
    return [results[turn.id] for turn in chaos.turns]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let go whatever happened."""
    chaos, _ = _both(config)
    if chaos is not None and chaos.campaign is not None:
        chaos.campaign.close()


def _both(config: pytest.Config) -> tuple[Session | None, State | None]:
    return config.stash.get(SESSION, None), config.stash.get(STATE, None)
