"""``gpu-conformance chaos plan|run|halt|recover|status|verdict|record|list``: the engine behind ``pytest chaos --chaos`` without pytest.

Each is safe to repeat. ``plan`` and ``status`` touch nothing; ``verdict`` needs no cluster.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from chaos.catalogue import FOLDER, SelectionError, load_all, select_experiments
from chaos.cluster import namespaces
from chaos.engine.campaign import CampaignSetup, Refused, plan_now
from chaos.engine.guard import HARM
from chaos.engine.recover import RECOVER_SECONDS, accepted_entry, end_halt, halt, preview, recover, status
from chaos.engine.turns import Turn
from chaos.ledger.bounds import Terms
from chaos.model.experiment import DEFAULT_MAX_LEVEL, OPT_IN_LEVEL, Experiment, Level
from chaos.model.plan import Plan
from chaos.model.records import LeaseRefused, LedgerError
from chaos.plan.selectors import NoPlan, NotApplicable, TargetUnclear
from chaos.safety.admission import gate_results, writes
from chaos.surface.chaos_run import campaign_setup, turns_of
from chaos.surface.options import SCENARIO, add_conditions, add_options, add_pool, chosen_options
from chaos.verdict.judge import judge
from conformance.cli import target
from conformance.cli.arguments import Parser, PytestOptions, complain, show_json, tell
from conformance.cli.commands import command_parser
from conformance.plugin.opening import OpenTarget, open_target
from conformance.plugin.options import OPTIONS, Options
from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import look
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.localcluster.interface import DEFAULT_MINOR
from fixtures.ownership import owned
from fixtures.policy.model import Policy
from fixtures.policy.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.system.file_search import find_files, folder_problem
from fixtures.text.sentences import counted
from fixtures.verdict.record import TargetKind, Verdict
from reports.folder import CHAOS_NAME, ReportError, load_chaos
from reports.merge.gameday import game_days

PROGRAM = "gpu-conformance chaos"
OK, FAILED, USAGE, NOTHING, INCONCLUSIVE, RESIDUE = 0, 1, 4, 5, 10, 11
EXIT = {Verdict.PASSED: OK, Verdict.FAILED: FAILED, Verdict.INCONCLUSIVE: INCONCLUSIVE, Verdict.ERROR: 3}


OWN_EXPERIMENTS = "folder with your own experiments; default: the suite's"
EXAMPLES = {
    "plan": ("--simulate resilience", "--kubeconfig FILE --chaos-cluster UID --chaos-experiment A1"),
    "run": ("--simulate resilience", "--kubeconfig FILE --chaos-cluster UID"),
    "halt": ("--kubeconfig FILE --chaos-cluster UID", "--kubeconfig FILE --chaos-cluster UID --off"),
    "recover": ("--kubeconfig FILE --chaos-cluster UID", "--kubeconfig FILE --chaos-cluster UID --folder out/latest --yes"),
    "status": ("--kubeconfig FILE", "--in-cluster"),
    "verdict": ("out/latest/chaos/A1", "out/latest/chaos/A1 --json"),
    "record": ("out", "out --json"),
    "list": ("", "--json"),
}


def _examples(name: str) -> tuple[str, ...]:
    return tuple(f"{PROGRAM} {name} {arguments}".strip() for arguments in EXAMPLES[name])


def main(argv: Sequence[str]) -> int:
    """Run a subcommand; its exit code as everywhere in the suite."""
    if list(argv[1:2]) == ["run"] and not {"-h", "--help"} & set(argv[2:]):
        return _run(argv[2:])
    arguments = command_parser("chaos").parse_args(argv[1:])
    command: Callable[[argparse.Namespace], int] = arguments.call
    try:
        return command(arguments)
    except (ClusterUnreachable, pytest.UsageError) as error:
        return complain(PROGRAM, error)
    except ApiTrouble as trouble:
        complain(PROGRAM, trouble.message)
        return INCONCLUSIVE


def options(parser: Parser, _command: str) -> None:
    """Give the parser its commands."""
    commands = parser.add_subparsers(required=True, parser_class=Parser, metavar="COMMAND")

    def add(name: str, call: Callable[[argparse.Namespace], int], help: str) -> argparse.ArgumentParser:
        command: Parser = commands.add_parser(name, help=help, description=f"{help[0].upper()}{help[1:]}.", examples=_examples(name))
        command.set_defaults(call=call)
        return command

    plan = add("plan", _plan, "print what the experiments would do to which objects; changes nothing")
    _cluster(plan, simulated=True)
    plan.add_argument("--policy", metavar="FILE", default="", help="what you expect of the cluster (YAML)")
    plan.add_argument("--chaos-max-level", metavar="N", type=int, help="0 simulated, 1 agents (default) to 4 destructive")
    plan.add_argument("--chaos-cluster", metavar="UID", action="append", default=[], help="UID of a cluster that experiments may change")
    only = "these only; default: all up to the level"
    plan.add_argument("--chaos-experiment", metavar="ID[,ID...]", action="append", default=[], help=only)
    plan.add_argument("--chaos-target", metavar="NODE", default="", help="the node to act on; default: the plan chooses")
    plan.add_argument("--chaos-confirm", metavar="NAME", default="", help="the cluster's name, typed, for level 4")
    plan.add_argument("--chaos-folder", metavar="DIR", default="", help=OWN_EXPERIMENTS)
    add_conditions(plan.add_argument)
    add_pool(plan.add_argument)
    run = commands.add_parser("run", help="pytest chaos --chaos with the options that follow", examples=_examples("run"))
    _cluster(run, simulated=True)
    add_options(PytestOptions(run))
    halt = add("halt", _halt, "stop the running experiment on the cluster, and let none start")
    _cluster(halt)
    target.add_consent_options(halt)
    halt.add_argument("--off", action="store_true", help="lift the halt")
    recover = add("recover", _recover, "undo what runs have left, from any machine")
    _cluster(recover)
    recover.add_argument("--folder", metavar="DIR", default="", help="report folders with ledgers that may be missing in the cluster")
    target.add_consent_options(recover)
    recover.add_argument("--chaos-folder", metavar="DIR", default="", help="folder with your own experiments whose runs are recovered")
    recover.add_argument("--run", metavar="ID", default="", help="one run only")
    patience = f"for how long it tries again what the API refuses; default: {RECOVER_SECONDS:.0f}"
    recover.add_argument("--seconds", metavar="N", type=int, default=int(RECOVER_SECONDS), help=patience)
    accepting = "close an entry (RUN/EXPERIMENT/NUMBER) that somebody has looked at, without undoing it; repeatable"
    recover.add_argument("--accept", metavar="ENTRY", action="append", default=[], help=accepting)
    status = add("status", _status, "show who acts on the cluster and what is not undone; changes nothing")
    _cluster(status)
    verdict = add("verdict", _verdict, "judge an experiment's stored files again")
    verdict.add_argument("folder", metavar="FOLDER", type=Path, help="an experiment's folder in a run's report")
    verdict.add_argument("--json", action="store_true", help="print the verdict with its findings as JSON")
    record = add("record", _record, "recovery times, detections and a score over several runs, and what to do next")
    record.add_argument("folders", metavar="FOLDER", type=Path, nargs="+", help="report folders of runs, or a folder with several")
    record.add_argument("--json", action="store_true", help="print the record as JSON")
    listing = add("list", _list, "the experiments")
    listing.add_argument("--json", action="store_true", help="print them as JSON")
    listing.add_argument("--chaos-folder", metavar="DIR", default="", help=OWN_EXPERIMENTS)


def _cluster(command: argparse.ArgumentParser, *, simulated: bool = False) -> None:
    target.add_options(command)
    if simulated:
        command.add_argument("--simulate", metavar="SCENARIO[,DEFECT...]", default="", help="the embedded simulated cluster")
        local = f"real Kubernetes as local processes (default: {DEFAULT_MINOR}), nodes as in --simulate"
        command.add_argument("--local", metavar="MINOR", nargs="?", const=DEFAULT_MINOR, default="", help=local)
        command.add_argument("--local-bin", metavar="DIR", default="", help="folder with the programs for --local")
        command.add_argument("--real-nodes", metavar="N", type=int, default=0, help="nodes of --local that are virtual machines")


def _folder(arguments: argparse.Namespace) -> Path:
    """Where the experiments are."""
    return Path(arguments.chaos_folder) if arguments.chaos_folder else FOLDER


def _policy(arguments: argparse.Namespace) -> Policy:
    """The policy. Raises :class:`PolicyError`."""
    return build_policy(read_policy_file(Path(arguments.policy)) if arguments.policy else {})


# -- subcommands -----------------------------------------------------------------------------------------


def _run(arguments: Sequence[str]) -> int:
    return int(pytest.main([*OPTIONS, str(Path(__file__).resolve().parents[1]), "--chaos", *arguments]))


def _list(arguments: argparse.Namespace) -> int:
    try:
        experiments = load_all(_folder(arguments))
    except SelectionError as error:
        return _complain_lines(str(error))
    if arguments.json:
        shown = ("level", "area", "fidelity", "needs", "proves", "target", "undo", "takes_capacity")
        show_json([{"id": one.id, "title": one.title, **{key: getattr(one.extension, key) for key in shown}} for one in experiments])
        return OK
    for one in experiments:
        tell(f"{one.id:<5} L{one.extension.level} {one.title} ({Level(one.extension.level).words})", f"         {touches(one)}")
    return OK if experiments else NOTHING


_TOUCHED = {
    "daemon-pod": "the pod of {component} on one GPU node",
    "controller-pod": "one pod of {component}",
    "operand": "one object that the GPU operator owns",
    "name-server": "the Deployment of the cluster's name servers",
    "node": "{nodes}",
    "gpu": "one GPU of one node",
}


def touches(experiment: Experiment) -> str:
    """What an experiment touches, and where it may run, in a sentence."""
    extension, wanted = experiment.extension, experiment.extension.target
    nodes = f"{wanted['count']} GPU nodes" if "count" in wanted else "one GPU node"
    target = _TOUCHED.get(str(wanted.get("select")), "what its plan names").format(component=wanted.get("component"), nodes=nodes)
    count = wanted.get("free")
    free = f", with {counted(count, 'free device')}" if count else ""
    missing = "; GPUs may be missing meanwhile" if extension.takes_capacity else ""
    words = {"live": "live clusters", "local": "the local control plane", "simulated": "the simulated cluster"}
    places = ", ".join(f"{words[kind]} ({how})" for kind, how in extension.fidelity.items() if kind in words)
    opted = ", on nodes that carry its label" if extension.level >= OPT_IN_LEVEL and TargetKind.LIVE in extension.fidelity else ""
    needs = f"; needs {', '.join(extension.needs)}" if extension.needs else ""
    return f"touches {target}{free}{missing}{needs}. Runs on {places}{opted}."


def _record(arguments: argparse.Namespace) -> int:
    found = []
    for folder in arguments.folders:
        if why := folder_problem(folder):
            return complain(PROGRAM, f"{folder}: {why}")
        paths, unread = find_files(folder, CHAOS_NAME)
        for line in unread:
            complain(PROGRAM, f"{line}; it is left out")
        for path in paths:
            try:
                found.append(load_chaos(path.parent))
            except ReportError as error:
                complain(PROGRAM, f"{error}; it is left out")
    days = game_days(one for one in found if one is not None)
    if arguments.json:
        show_json(days)
    for day in () if arguments.json else days:
        score = "no experiment was judged" if day.score is None else f"score {day.score} of 100"
        tell(f"{day.target}: {counted(day.runs, 'run')}, {score}", *(f"  {line}" for one in day.experiments for line in one.sentences))
    return OK if days else NOTHING


def _plan(arguments: argparse.Namespace) -> int:
    chaos_options = chosen_options(arguments)
    level = DEFAULT_MAX_LEVEL if chaos_options.max_level is None else chaos_options.max_level
    try:
        experiments = load_all(_folder(arguments))
        chosen = select_experiments(experiments, chaos_options.experiments, Level(level))
        with _target(arguments) as opened:
            setup = campaign_setup(opened, chaos_options, chosen, owned.new_run_id(), Path.cwd())
            ready, found = 0, turns_of(setup, chaos_options, chosen)
            for turn in found:
                lines, possible = describe_plan(setup, turn)
                ready += possible
                tell(*lines)
    except SelectionError as error:
        return _complain_lines(str(error))
    except Refused as error:
        return complain(PROGRAM, error)
    tell(f"{ready} of {len(found)} experiments could be carried out; nothing was touched")
    return OK if ready else NOTHING


@contextmanager
def _target(arguments: argparse.Namespace) -> Iterator[OpenTarget]:
    suites_own = bool(arguments.local or arguments.simulate)  # beside --local, --simulate names the scenario of its nodes
    named = bool(arguments.kubeconfig) + arguments.in_cluster + suites_own
    if named > 1:
        raise pytest.UsageError("--kubeconfig, --in-cluster, --local and --simulate: one target at a time")
    if arguments.local_bin and not arguments.local:
        raise pytest.UsageError("--local-bin needs --local")
    if arguments.real_nodes and not arguments.local:
        raise pytest.UsageError("--real-nodes needs --local")
    if arguments.context is not None and not arguments.kubeconfig:
        raise pytest.UsageError("--context needs --kubeconfig: no kubeconfig is taken from the environment")
    if not named:
        targets = "--kubeconfig FILE, --in-cluster, --simulate SCENARIO, --local[=MINOR]"
        raise pytest.UsageError(f"no target is named: expected one of {targets} (none is taken from the environment)")
    options = Options(
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        in_cluster=arguments.in_cluster,
        simulate=arguments.simulate or (SCENARIO if arguments.local else ""),
        local=arguments.local,
        local_bin=str(Path(arguments.local_bin).expanduser().resolve()) if arguments.local_bin else "",
        real_nodes=arguments.real_nodes,
        policy=arguments.policy,
    )
    opened = open_target(options, owned.new_run_id())
    try:
        yield opened
    finally:
        opened.close()


def _open(arguments: argparse.Namespace) -> Cluster:
    """A session that knows the versions which the cluster serves. Of kinds that discovery does not tell of, it guesses the version."""
    cluster = target.open_cluster(arguments)
    served = look(cluster)
    cluster.learn_versions(served.chosen(), served.unknown())
    return cluster


def _halt(arguments: argparse.Namespace) -> int:
    try:
        policy, consent = _policy(arguments), target.consent_of(arguments)
    except PolicyError as error:
        return _complain_lines(str(error))
    cluster = _open(arguments)
    plan = "end the halt: experiments may start" if arguments.off else "halt: the running experiment is undone, and none may start"
    try:
        target.confirm(cluster, [plan], consent)
    except target.NotConfirmed as error:
        return complain(PROGRAM, error)
    left = []
    if arguments.off:
        left = end_halt(cluster)
        tell("the halt has ended")
    else:
        halt(cluster, administrators=policy.chaos.namespace_uid)
        tell("halted: the running experiment is being undone, and none may start")
    tell(*status(cluster).lines, *(f"NOT removed: {line}" for line in left))
    return RESIDUE if left else OK


def _status(arguments: argparse.Namespace) -> int:
    found = status(_open(arguments))
    tell(*found.lines)
    return RESIDUE if (found.open_entries or found.lost or found.unproven) and (not found.holder or found.expired) else OK


def _recover(arguments: argparse.Namespace) -> int:
    try:
        accept = [accepted_entry(text) for text in arguments.accept]
    except ValueError as error:
        return complain(PROGRAM, f"--accept {error}")
    if arguments.run and not namespaces.is_run(arguments.run):
        return complain(PROGRAM, f"--run {arguments.run!r}: not a run id")
    if arguments.seconds < 1:
        return complain(PROGRAM, f"--seconds {arguments.seconds}: at least 1")
    folder = Path(arguments.folder) if arguments.folder else None
    if folder is not None and (why := folder_problem(folder)):
        return complain(PROGRAM, f"--folder {folder}: {why}")
    try:
        terms = Terms.of(load_all(_folder(arguments)), _policy(arguments))
        consent = target.consent_of(arguments)
    except (PolicyError, SelectionError) as error:
        return _complain_lines(str(error))
    cluster = _open(arguments)
    try:
        plan, done = preview(cluster, folder, run_id=arguments.run, accept=accept, terms=terms)
        target.confirm(cluster, plan, consent)
        if plan:
            done = recover(cluster, folder, run_id=arguments.run, accept=accept, terms=terms, seconds=arguments.seconds)
    except (LeaseRefused, LedgerError, target.NotConfirmed) as error:
        return complain(PROGRAM, error)
    tell(f"{done.restored} changes of {len(done.runs)} runs put back")
    tell(*(f"NOT put back: {line}" for line in (*done.residue, *done.leftovers, *done.unreadable)))
    tell(*(f"its last line was cut off by a crash, and never allowed an act: {line}" for line in done.torn), *done.unmade, *done.forged)
    tell(*(f"left alone, of another cluster: {line}" for line in done.elsewhere))
    return OK if done.clean else RESIDUE


def _verdict(arguments: argparse.Namespace) -> int:
    if why := folder_problem(arguments.folder):
        return complain(PROGRAM, f"{arguments.folder}: {why}")
    found = judge(arguments.folder)
    if arguments.json:
        show_json(found)
        return EXIT[found.verdict]
    tell(f"{found.verdict} {', '.join(found.reason_codes)}".rstrip() + (f": {found.message}" if found.message else ""))
    tell(*(f"  {one.verdict:<14} {one.name}: {one.message}" for one in found.findings))
    for name, mark in found.marks.items():
        tell(f"  {name:<10} {mark.t:8.2f} s (up to {mark.uncertainty:.2f} s earlier)")
    return EXIT[found.verdict]


def _complain_lines(text: str) -> int:
    for line in text.splitlines():
        complain(PROGRAM, line)
    return USAGE


_METHODS = {"delete": "DELETE", "patch": "PATCH", "create": "POST"}


def describe_plan(setup: CampaignSetup, turn: Turn) -> tuple[list[str], bool]:
    """The lines, and whether it could be carried out as things are now. Reads only. Raises ApiTrouble."""
    experiment = turn.experiment
    level = Level(experiment.extension.level)
    lines = [f"{turn.id} {experiment.title} (level {level.value}: {level.words})"]
    try:
        plan = plan_now(setup, experiment, turn.node)
    except NoPlan as error:
        words = "not applicable" if isinstance(error, NotApplicable) else "undecided" if isinstance(error, TargetUnclear) else "refused"
        return [*lines, f"  {words}: {error.code}: {error.message}"], False
    lines += list(_lines(setup, experiment, plan))
    gates = gate_results(setup.cluster, setup.policy, setup.settings, experiment, plan, ours=setup.ours, steady="")
    refused = [f"  refused: {gate.name}: {gate.message}" for gate in gates if not gate.ok]
    return [*lines, *refused], not refused


def _sentences(setup: CampaignSetup, plan: Plan) -> Iterator[str]:
    """The plan as somebody would tell it."""
    seconds, settings = plan.seconds, setup.settings
    on = f" on {', '.join(plan.nodes)}" if plan.nodes and plan.targets[0].kind != "nodes" else ""
    yield f"  It acts on {', '.join(map(str, plan.targets))}{on}, and leaves {plan.untouched or 'no node'} untouched."
    first, *rest = plan.actions or ("nothing is done",)
    yield f"  First: {first}." + "".join(f" Then: {one}." for one in rest)
    back = ", ".join(plan.undo) or "nothing"
    yield f"  Then it puts back what it has changed ({back}), {seconds['deadline']:g} s after it began at the latest."
    yield f"  It passes if all is as before within {seconds['recovery']:g} s, and stays so for {seconds['settle']:g} s."
    yield from (f"  It stops by itself if {words}." for words in (*HARM.values(), *(f"this holds: {one}" for one in settings.stop_if)))
    yield from (f"  Before and after, this has to hold: {one}." for one in settings.steady_if)
    yield from (f"  This has to show the fault: {one}." for one in settings.detect_if)


def _lines(setup: CampaignSetup, experiment: Experiment, plan: Plan) -> Iterator[str]:
    cluster = setup.cluster
    yield from _sentences(setup, plan)
    for one in plan.targets:
        yield f"  target: {one} (uid {one.uid})" + (f" on {one.node}" if one.node not in ("", one.name) else "")
    share = 100 * len(plan.targets) / plan.eligible if plan.eligible else 100.0
    yield f"  share: {len(plan.targets)} of {plan.eligible} eligible ({share:.0f} %); left untouched: {plan.untouched or 'none'}"
    for action in plan.actions:
        yield f"  does: {action}"
    for verb, one in writes(experiment, plan):
        yield f"  calls: {_METHODS.get(verb, verb)} {cluster.path(one.kind, one.namespace, one.name)}"
    if any(name.startswith("host.") for name in plan.undo):
        yield f"  calls: POST {cluster.path('pods', plan.namespace)} (an injector pod on {', '.join(plan.nodes)})"
    yield f"  undo: {', '.join(plan.undo) or 'nothing is changed'}"
    shown = ("outage", "recovery", "settle", "deadline")
    yield "  seconds: " + ", ".join(f"{name} {plan.seconds[name]:g}" for name in shown if name in plan.seconds)
