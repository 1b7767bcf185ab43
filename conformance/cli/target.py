"""Opens the cluster that a command outside pytest names, and has a change to it confirmed: shows the plan, checks the UID, asks.

The cluster is never taken from the environment. A simulated one is asked for too: what a server says of itself lifts no safety.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from conformance.cli.arguments import tell
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ClusterUnreachable
from fixtures.policy.allowlist import OPTION, cluster_uid, not_allowed
from fixtures.policy.policy_file import build_policy, read_policy_file
from fixtures.text.sentences import plain

NAME_IT = "name the cluster: --kubeconfig FILE or --in-cluster (none is taken from the environment)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Register the options that :func:`open_cluster` reads."""
    parser.add_argument("--kubeconfig", metavar="FILE", default="", help="a live cluster (never taken from the environment)")
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig; default: its current context")
    parser.add_argument("--in-cluster", action="store_true", help="the cluster that this process runs in")


def is_named(arguments: argparse.Namespace) -> bool:
    """Whether the arguments name one cluster, and not two."""
    return bool(arguments.kubeconfig) != bool(arguments.in_cluster)


def open_cluster(arguments: argparse.Namespace) -> Cluster:
    """A session with the cluster, which has answered. Raises :class:`ClusterUnreachable`, also when none or two are named."""
    if not is_named(arguments):
        raise ClusterUnreachable(NAME_IT)
    cluster = Cluster.in_cluster() if arguments.in_cluster else Cluster.from_kubeconfig(Path(arguments.kubeconfig), arguments.context)
    cluster.probe()
    return cluster


class NotConfirmed(Exception):
    """The plan may not be carried out, and nothing was touched: one line that says what was expected. Exit code 4."""


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """What was said beforehand. ``allowed`` are UIDs of clusters; ``yes`` confirms where nobody is there to be asked.

    ``option`` is what says yes beforehand, as whoever lacks it is to type it.
    """

    allowed: tuple[str, ...] = ()
    yes: bool = False
    option: str = "--yes"


def add_consent_options(parser: argparse.ArgumentParser) -> None:
    """Register the options that :func:`consent_of` reads."""
    allowed = "UID of the cluster (of its namespace kube-system) that may be changed; repeatable"
    parser.add_argument(OPTION, metavar="UID", action="append", default=[], help=allowed)
    parser.add_argument("--policy", metavar="FILE", default="", help="its chaos.clusters are allowed too")
    parser.add_argument("--yes", action="store_true", help="carry out the plan without asking (for scripts)")


def consent_of(arguments: argparse.Namespace) -> Consent:
    """The options, decoded. Raises :class:`fixtures.policy.policy_file.PolicyError` for a policy that cannot be used."""
    policy = build_policy(read_policy_file(Path(arguments.policy)) if arguments.policy else {})
    return Consent(allowed=(*policy.chaos.clusters, *arguments.chaos_cluster), yes=arguments.yes)


def confirm(cluster: Cluster, plan: Sequence[str], consent: Consent, *, ask: Callable[[str], str] | None = None) -> None:
    """Print the plan, a line for each change, and return when it may be carried out. A plan without lines needs nobody's word.

    ``ask`` puts a question to whoever is at the terminal; None where nobody is. Raises :class:`NotConfirmed`, and ApiTrouble when
    the cluster does not say which it is.
    """
    if not plan:
        return
    uid = cluster_uid(cluster)
    tell(f"on cluster {uid} ({cluster.context or 'no name'}), server {cluster.shown_server}:", *(f"  {line}" for line in plan))
    if refusal := not_allowed(uid, cluster.context, consent.allowed):
        raise NotConfirmed(plain(refusal))
    if consent.yes:
        return
    ask = ask or _asker()
    names = tuple(dict.fromkeys(name for name in (cluster.context, uid) if name))
    if ask is None:
        raise NotConfirmed(f"there is no terminal to confirm it at: expected {plain(consent.option)}")
    if ask(f"type {plain(names[0])} to carry this out: ").strip() not in names:
        raise NotConfirmed("not confirmed, and nothing was touched")


def _asker() -> Callable[[str], str] | None:
    return _typed if sys.stdin is not None and sys.stdin.isatty() else None


def _typed(question: str) -> str:
    try:
        return input(question)
    except EOFError:
        return ""
