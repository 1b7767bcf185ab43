"""``gpu-conformance cleanup``: remove what killed runs left, and nothing that is not proven to be theirs.

Exit codes: 0 nothing of an ended run is left, 4 usage, or not allowed or not confirmed, 10 the cluster could not be asked, or
something carries the suite's labels and nothing proves whose it is, 11 something of a run stays.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

import msgspec

from chaos.cluster.namespaces import SHARING
from chaos.safety.lease import LeaseView, read_lease
from conformance.cli import target
from conformance.cli.arguments import Parser, complain, tell
from conformance.cli.commands import command_parser
from conformance.cli.target import Consent, NotConfirmed, confirm, consent_of
from conformance.delivery.releases import left_on_nodes
from fixtures.cluster.client import Cluster
from fixtures.cluster.discovery import discover
from fixtures.cluster.kinds import KINDS
from fixtures.cluster.trouble import ApiTrouble, ClusterUnreachable
from fixtures.ownership import owned
from fixtures.ownership.proof_record import ALIVE_SECONDS, SURELY, ProofView
from fixtures.ownership.read_proofs import LeftoversByRun, find_leftovers, held_back, living, read_folder, read_proofs, remove
from fixtures.policy.policy_file import PolicyError
from fixtures.system.file_search import folder_problem
from fixtures.text.sentences import few

PROGRAM = "gpu-conformance cleanup"
OK, USAGE, INCONCLUSIVE, RESIDUE = 0, 4, 10, 11
NOTHING = "nothing of the suite is left"


class _Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What to clean up: ``run_id`` empty means every run; without ``folder`` only the cluster's proofs count.

    ``published``: verdicts on nodes that still hold go too.
    """

    run_id: str
    folder: Path | None
    dry_run: bool
    consent: Consent
    published: bool = False


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    target.add_options(parser)
    parser.add_argument("--run", metavar="ID", default="", help="one run only; default: every run of the suite")
    parser.add_argument(
        "--folder", metavar="DIR", default="", help="a run's report folder, or a folder with several: what they list is removed too"
    )
    parser.add_argument("--published", action="store_true", help="remove verdicts on nodes that still hold too, as publish --remove does")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    target.add_consent_options(parser)


def main(argv: Sequence[str]) -> int:
    """Find, show, ask and remove."""
    parser = command_parser("cleanup")
    arguments = parser.parse_args(argv[1:])
    if arguments.run and not owned.is_run_id(arguments.run):
        return complain(parser.prog, f"--run {arguments.run!r}: not a run id")
    folder = Path(arguments.folder) if arguments.folder else None
    if folder is not None and (why := folder_problem(folder)):
        return complain(parser.prog, f"--folder {folder}: {why}")
    try:
        wanted = _Wanted(
            run_id=arguments.run,
            folder=folder,
            dry_run=arguments.dry_run,
            consent=consent_of(arguments),
            published=arguments.published,
        )
        cluster = target.open_cluster(arguments)
    except (ClusterUnreachable, PolicyError) as error:
        return complain(parser.prog, error)
    try:
        return _clean(cluster, wanted)
    except NotConfirmed as error:
        return complain(parser.prog, error)
    except ApiTrouble as trouble:
        complain(parser.prog, trouble.message)
        return INCONCLUSIVE


def _clean(cluster: Cluster, wanted: _Wanted) -> int:
    served = discover(cluster)
    cluster.learn_versions({key: served[key][0] for key in KINDS if key in served})
    views = _proofs(cluster, wanted)
    found = find_leftovers(cluster, views, wanted.run_id)
    alive = _alive(cluster, [view for run_id, view in views.items() if run_id in found.runs])
    ended = found.of(found.runs - alive - {SHARING})  # Lease and ledgers of all runs go with the last run of chaos
    for run_id in sorted(found.runs & alive):
        tell(f"spared, because it is alive: {views[run_id].description}")
    strange = [f"{item} carries the suite's labels, and nothing proves that a run created it" for item in found.unproven]
    for line in few(strange, "that carry the suite's labels, and nothing proves that a run created them"):
        tell(f"NOT touched: {line}: possibly an attack")
    nodes = left_on_nodes(cluster, wanted.run_id, everything=wanted.published)
    tell(*nodes.spared)
    held = held_back(ended, views)
    plan = [f"delete {item}, UID {item.uid}" for item in (*ended.objects, *ended.classes) if item not in held] + nodes.plan
    if wanted.dry_run and (plan or held):
        tell(*(f"would {line}" for line in plan), *(f"stays: {line}" for line in held.values()))
    elif held and not plan:
        tell(*(f"stays: {line}" for line in held.values()))
        return RESIDUE
    elif plan:
        confirm(cluster, plan, wanted.consent)
        stays = _remove(cluster, ended, views, wanted.run_id)
        problems = nodes.undo(cluster)
        tell(*(f"stays: {line}" for line in problems), *(f"done: {line}" for line in nodes.plan if not problems))
        if stays or problems:
            return RESIDUE
    else:
        tell("nothing of an ended run is left in the cluster" if found.runs or found.unproven or nodes.spared else NOTHING)
    return INCONCLUSIVE if found.unproven or nodes.unread else OK


def _proofs(cluster: Cluster, wanted: _Wanted) -> Mapping[str, ProofView]:
    """The proofs of runs by run id: their PriorityClasses, and the files of the folder."""
    views = dict(read_proofs(cluster, wanted.run_id))
    if wanted.folder is not None:
        kept, wrong = read_folder(wanted.folder)
        for line in wrong:
            tell(f"vouches for nothing: {line}")
        for run_id, view in kept.items():
            views[run_id] = views[run_id].merged(view) if run_id in views else view
    return views


def _alive(cluster: Cluster, views: Iterable[ProofView]) -> frozenset[str]:
    """Runs that go on: by their proofs, or because one holds the Lease of chaos experiments and has not let it expire."""
    try:
        lease = read_lease(cluster)
    except ApiTrouble as trouble:
        if trouble.code != "Forbidden":
            raise
        lease = None  # an account without rights to experiments: their proofs tell as well
    holding = {lease.holder.run_id} if lease is not None and lease.holder is not None and _is_held(lease) else set()
    return living(cluster, views) | holding


def _is_held(lease: LeaseView) -> bool:
    """Whether its holder may be alive. Two machines' clocks differ, so one that has just expired, or will, still counts."""
    age = lease.age()
    if lease.holder is None or lease.holder.process.ended or age is None:
        return False
    return abs(age) <= timedelta(seconds=SURELY * min(lease.seconds, ALIVE_SECONDS))


def _remove(cluster: Cluster, ended: LeftoversByRun, views: Mapping[str, ProofView], run_id: str) -> bool:
    """Remove, and look again; whether something stays."""
    why = remove(cluster, ended, views)
    left = find_leftovers(cluster, views, run_id).of(ended.runs)
    staying = {item.uid for item in (*left.objects, *left.classes)}
    for item in (*ended.objects, *ended.classes):
        tell(f"{'NOT removed' if item.uid in staying else 'removed'}: {item}")
    for line in why:
        tell(f"stays: {line}")
    return bool(why or staying)
