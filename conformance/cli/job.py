"""``gpu-conformance job``: a run in the cluster, as the Job of ``deploy/`` starts it. It runs the suite and hands the results on.

``publish`` labels nodes with the verdict of a report until a time, and takes such labels away.
"""

import argparse
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from conformance.cli import target
from conformance.cli.arguments import Parser, complain, tell, whole_number
from conformance.cli.commands import command_parser
from conformance.delivery import node_labels, releases, webhook
from conformance.delivery.destinations import Destination, Kind, deliver, parse
from conformance.delivery.node_labels import MAX_HOURS, Change, NodeVerdict, NotPublished, Statement
from conformance.delivery.outcome import DeliveryError, Outcome, line, outcome_of
from conformance.delivery.webhook import Hook
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.model.nodes.health import CONFORMANT
from fixtures.model.nodes.sweeping import sweeps
from fixtures.model.nodes.work import is_fence_key
from fixtures.policy.allowlist import cluster_uid
from fixtures.policy.model import Policy
from fixtures.policy.policy_file import PolicyError, build_policy, read_policy_file
from fixtures.system.own_modules import running
from fixtures.text.globs import matches
from fixtures.text.sentences import counted, listed
from fixtures.verdict.record import Report
from reports import phrases
from reports.folder import JSON_NAME, ReportError, load

PROGRAM = "gpu-conformance job"
INTERNAL_ERROR = 3
MAX_KEPT = 99_999

PUBLISH = "gpu-conformance publish"
HOURS = whole_number(1, MAX_HOURS)
"""Reads for how many hours labels hold."""


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of ``job`` or of ``publish``."""
    if command == "publish":
        _publish_options(parser)
        return
    target.add_options(parser)
    parser.add_argument(
        "--to", metavar="KIND=PLACE", action="append", default=[], type=_destination, help="where the results go, see below; repeatable"
    )
    words = "tell a webhook when the verdict changes or a cause comes or goes; FILE holds its URL; needs --to folder=DIR; repeatable"
    parser.add_argument("--webhook", metavar="json|slack=FILE", action="append", default=[], type=_hook, help=words)
    parser.add_argument("--publish", metavar="HOURS", type=HOURS, help="label the nodes with their verdict for so many hours")
    parser.add_argument(
        "--keep", metavar="N", type=whole_number(1, MAX_KEPT), default=30, help="how many runs stay in a folder; default: 30"
    )
    parser.add_argument("options", nargs=argparse.REMAINDER, metavar="-- PYTEST OPTIONS", help="options of the run")


def main(argv: Sequence[str]) -> int:
    """The run's exit code; 3 when the run was good and left no report, or its results could not be handed on.

    A run that found no node to judge (``--if-any``) has nothing to hand on.
    """
    if argv[0] == "publish":
        return publish(argv)
    arguments = command_parser("job").parse_args(argv[1:])
    given = arguments.options[1:] if arguments.options[:1] == ["--"] else arguments.options
    if any(option.partition("=")[0] == "--report-dir" for option in given):
        return complain(PROGRAM, "--report-dir is not for a job: say where its results go by --to")
    if not target.is_named(arguments):
        return complain(PROGRAM, target.NAME_IT)
    if arguments.webhook and not _volume(arguments):
        return complain(PROGRAM, "--webhook needs --to folder=DIR, which knows the run before")
    named = ["--in-cluster"] if arguments.in_cluster else ["--kubeconfig", arguments.kubeconfig]
    named += ["--context", arguments.context] if arguments.context else []
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-job-") as work:
        folder = Path(work) / "report"
        earlier = ["--history", volume] if (volume := _volume(arguments)) and Path(volume).is_dir() else []
        code = _run([*named, "--report-dir", str(folder), *earlier, *given])
        if code == 0 and "--if-any" in given and not (folder / JSON_NAME).is_file():
            tell(line(Outcome(exit_code=0, headline="nothing was to be judged: no node is as --nodes asks")))
            return 0
        report = _report(folder)
        outcome = outcome_of(report, code)
        _hand_on(arguments, folder, outcome)
        if report is not None and arguments.publish:
            publishing = ["publish", str(folder), "--hours", str(arguments.publish), *named, *_policy_option(given)]
            outcome.undelivered += ["node labels"] if publish(publishing) else []
    if outcome.undelivered and outcome.exit_code == 0:
        outcome.exit_code = INTERNAL_ERROR
    tell(line(outcome))
    return outcome.exit_code


def _policy_option(options: Sequence[str]) -> list[str]:
    """The option by which a run reads its policy, the last one: what the run tolerated, its verdicts tolerate too."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--policy")
    policy = parser.parse_known_args(options)[0].policy
    return [f"--policy={policy}"] if policy else []


def _run(options: list[str]) -> int:
    """The suite in a process of its own, which gets the signals that end this one: it removes what it made before it ends."""
    command = running("conformance.cli.main", "run", *options)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as child:

        def forward(number: int, _frame: FrameType | None) -> None:
            child.send_signal(number)

        before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return code if code >= 0 else INTERNAL_ERROR  # killed, by lack of memory for one


def _report(folder: Path) -> Report | None:
    try:
        return load(folder)
    except ReportError as error:
        complain(PROGRAM, error)
        return None


def _hand_on(arguments: argparse.Namespace, folder: Path, outcome: Outcome) -> None:
    """Each destination once; one that fails costs the others nothing."""
    cluster: Cluster | None = None
    try:
        if any(destination.kind is Kind.CONFIG_MAP for destination in arguments.to):
            cluster = target.open_cluster(arguments)
    except ClusterUnreachable as error:
        complain(PROGRAM, error)
    for destination in arguments.to:
        try:
            outcome.delivered.append(deliver(destination, folder, outcome, cluster, keep=arguments.keep))
        except DeliveryError as error:
            complain(PROGRAM, error)
            outcome.undelivered.append(str(destination.kind))

    for hook in arguments.webhook if outcome.run_id else []:
        try:
            if (found := webhook.change(Path(_volume(arguments)), outcome.run_id)) is not None:
                outcome.delivered.append(webhook.send(hook, found))
        except (DeliveryError, ReportError) as error:
            complain(PROGRAM, error)
            outcome.undelivered.append(f"{hook.form} webhook")


def _volume(arguments: argparse.Namespace) -> str:
    return next((one.place for one in arguments.to if one.kind is Kind.FOLDER), "")


def _hook(text: str) -> Hook:
    try:
        return webhook.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _destination(text: str) -> Destination:
    try:
        return parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _publish_options(parser: Parser) -> None:
    parser.add_argument("report", nargs="?", type=Path, help="report.json or its folder")
    target.add_options(parser)
    hours = f"how long the labels hold from the beginning of the run on, at most {MAX_HOURS}; default: 26"
    parser.add_argument("--hours", metavar="N", type=HOURS, default=26, help=hours)
    parser.add_argument(
        "--policy", metavar="FILE", default="", help="the run's policy: what it tolerates and releases, and its maxAgeHours"
    )
    parser.add_argument("--sweep", action="store_true", help="remove labels that have expired")
    parser.add_argument("--remove", action="store_true", help="remove the labels from every node")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def publish(argv: Sequence[str]) -> int:
    """Exit 0; 4 when the report may not be published here; 10 when the cluster could not be asked; 11 when a label could not be set."""
    arguments = command_parser("publish").parse_args(argv[1:])
    if sum((arguments.report is not None, arguments.sweep, arguments.remove)) != 1:
        return complain(PUBLISH, "give a REPORT, --sweep or --remove, and one of them only")
    try:
        cluster = target.open_cluster(arguments)
        wanted, stated = _wanted(cluster, arguments)
        for change in wanted:
            tell(f"node {change.node}: " + ", ".join(_shown(key, value) for key, value in change.labels.items()))
        for one in stated:
            tell(f"node {one.node}: condition {_shown(CONFORMANT, one.verdict)}")
        problems = [] if arguments.dry_run else [*node_labels.state(cluster, stated), *node_labels.apply(cluster, wanted)]
        problems += _release(cluster, arguments, stated, wrong=bool(problems))
    except (ClusterUnreachable, PolicyError, ReportError, NotPublished) as error:
        return complain(PUBLISH, error)
    except ApiTrouble as error:
        complain(PUBLISH, error.message)
        return 10
    for problem in problems:
        complain(PUBLISH, problem)
    if arguments.report is not None:
        _say_what_ends_it(cluster)
    changed = {change.node for change in wanted} | {one.node for one in stated}
    ends = next((text for change in wanted if (text := change.labels.get(node_labels.UNTIL))), "")
    until = f"; the verdicts end at {datetime.fromtimestamp(int(ends), UTC):%Y-%m-%d %H:%M} UTC" if ends else ""
    tell(f"{counted(max(len(changed) - len(problems), 0), 'node')} {'would change' if arguments.dry_run else 'changed'}{until}")
    return 11 if problems else 0


def _say_what_ends_it(cluster: Cluster) -> None:
    """Say so where nothing lets the verdicts end: a scheduler and a controller compare no label and no condition with the clock."""
    try:
        found = [one for one in cluster.each("batch/cronjobs") if sweeps(one, time.time())]
    except ApiTrouble as error:
        tell(f"whether anything lets these verdicts end in time is not known: {error.message}")
        return
    if not found:
        tell("no CronJob lets these verdicts end in time: run `gpu-conformance publish --sweep` hourly (deploy/kustomize/overlays/sweep)")


def _release(cluster: Cluster, arguments: argparse.Namespace, stated: list[Statement], *, wrong: bool) -> list[str]:
    """Take the policy's own taints off nodes that a run about them has passed. Returns what went wrong.

    Where a verdict could not be written, no taint is touched.
    """
    if arguments.report is None or wrong:
        return []
    report, policy = load(arguments.report), _policy(arguments)
    about, begun = report.scope.nodes if report.scope else [], phrases.started(report)
    passed = [one for one in stated if one.verdict == "True" and one.node in about]
    if not policy.returns.release or not passed or begun is None:
        return []
    if arguments.dry_run:
        tell(*(f"node {one.node}: would take off {listed(policy.returns.release)}" for one in passed))
        return []
    problems = []
    for one in passed:
        words, problem = releases.release(cluster, one.node, one.uid, policy.returns.release, report.run.id, begun.timestamp())
        if problem:
            problems.append(f"node {one.node}: its taint stays: {problem}")
        elif words:
            tell(f"node {one.node}: taint {words} is taken off")
    return problems


def _policy(arguments: argparse.Namespace) -> Policy:
    return build_policy(read_policy_file(Path(arguments.policy)) if arguments.policy else {})


def _wanted(cluster: Cluster, arguments: argparse.Namespace) -> tuple[list[Change], list[Statement]]:
    now = time.time()
    if arguments.report is None:
        nodes = node_labels.read_nodes(cluster)
        gone = node_labels.withdrawn(nodes, now, everything=arguments.remove)
        return node_labels.expired(nodes, now, everything=arguments.remove), gone
    report, policy = load(arguments.report), _policy(arguments)
    node_labels.check(report, cluster_uid(cluster), cluster.probe())
    until, nodes = node_labels.until(report, arguments.hours, policy.publish.max_age_hours, now), node_labels.read_nodes(cluster)
    about = report.scope.nodes if report.scope else []
    nodes = [node for node in nodes if not about or node["metadata"]["name"] in about]  # a run about some says nothing of the others
    others = node_labels.of_other_machines(report, nodes)
    for name, why in sorted(others.items()):
        tell(f"node {name}: {why}")
    verdicts = node_labels.held_back(report, node_labels.verdicts(report), nodes)
    resources = policy.accelerators.resources

    def is_fence(key: str) -> bool:
        return is_fence_key(key, policy.fence.taint_keys, lambda name: matches(name, resources))

    for name, why in sorted(node_labels.out_of_work(nodes, is_fence, policy.returns.tolerate, about).items()):
        if verdicts.get(name) is NodeVerdict.PASSED:
            tell(f"node {name}: it passed and is not to be used now, so its label says unknown: {why}")
            verdicts[name] = NodeVerdict.UNKNOWN
    kept = {name: one for name, one in verdicts.items() if name not in others}
    return node_labels.changes(nodes, kept, until), node_labels.statements(report, nodes, kept, until)


def _shown(key: str, value: str | None) -> str:
    return f"{key}-" if value is None else f"{key}={value}"
