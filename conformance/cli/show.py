"""``gpu-conformance show node|pod|device NAME``: what is known of one object, from which field and since when. Reads only.

Exit codes: 0 shown, 4 usage or no such name, 10 what was asked for could not be read, 3 internal error.
"""

import argparse
import difflib
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from tabulate import tabulate

from conformance.catalogue import load_catalogue
from conformance.cli import target
from conformance.cli.arguments import Parser, add_columns, complain, show, show_json, width
from conformance.cli.commands import command_parser
from conformance.known.answers import Known
from conformance.known.device import known_by_kubelet, known_device, kubelets_devices, names_of_devices
from conformance.known.node import known_node
from conformance.plugin.opening import OpenTarget, open_target
from conformance.plugin.options import Options
from conformance.req.known_pod import known_pod
from fixtures.cluster.client import Cluster
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import SLICES
from fixtures.model.facts import Fact
from fixtures.policy.platforms import chosen_by_marks
from fixtures.snapshot.collect import collect
from fixtures.snapshot.managed_fields import fields_of, read_fields
from fixtures.snapshot.simulated_nodes import describe
from fixtures.text.sentences import duration, in_order, listed
from fixtures.verdict.record import Target
from fixtures.verdict.subjects import Inconclusive, NotApplicable
from reports.phrases import banner
from reports.safe_text import one_line

PROGRAM = "gpu-conformance show"
INTERNAL_ERROR, INCONCLUSIVE = 3, 10
_BASE = ("OPS-02", "OBS-09", "DRA-01")
READS_OF = {"node": _BASE, "pod": (*_BASE, "REQ-04", "REQ-06", "REQ-12"), "device": _BASE}
"""Requirements that read what the answer rests on, by what is shown."""

WHO_KNOWS = (
    "The API server knows devices by ResourceSlices of DRA drivers and by kubelets that write allocatedResourcesStatus; device plugins"
    " publish counts. 'gpu-conformance owners' asks exporters, 'gpu-conformance probe' the driver of a machine"
)

_WIDTHS = (32, 52, 32)
"""Columns of a name, a value and a source: lines break between words only. Names and UUIDs are never broken, so that they can be copied."""
_LEAST = 24
_WIDE = 140
"""Columns from which source and age have a place beside the value. In fewer they stand below it."""
_NAME, _TEXT = 120, 400


class NoSuchName(Exception):
    """Nothing of the name was read. One line, with names that are like it."""


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("kind", choices=list(READS_OF), help="what to show")
    parser.add_argument("name", metavar="NAME", help="a node's name, a pod's NAMESPACE/NAME or NAME, a device's UUID or NODE/INDEX")
    target.add_options(parser)
    parser.add_argument("--snapshot", metavar="PATH", default="", help="a file or folder of 'kubectl get' output instead of a live cluster")
    parser.add_argument("--simulate", metavar="SCENARIO[,DEFECT...]", default="", help="the embedded simulated cluster instead")
    parser.add_argument("--policy", metavar="FILE", default="", help="what you expect of the cluster (YAML)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    add_columns(parser)


def main(argv: Sequence[str]) -> int:
    """Read, choose and print."""
    import pytest  # imported late: --help needs none

    arguments = command_parser("show").parse_args(argv[1:])
    if sum(map(bool, (arguments.kubeconfig, arguments.in_cluster, arguments.snapshot, arguments.simulate))) != 1:
        return complain(PROGRAM, "name one cluster: --kubeconfig FILE, --in-cluster, --snapshot PATH or --simulate SCENARIO")
    try:
        opened = open_target(_options(arguments), "show")
    except pytest.UsageError as error:
        return complain(PROGRAM, error)
    except pytest.exit.Exception as error:  # the simulated cluster did not start
        complain(PROGRAM, error)
        return INTERNAL_ERROR
    try:
        scope = _read(opened, READS_OF[arguments.kind])
        known = _known(scope, opened, arguments.kind, arguments.name)
    except NoSuchName as error:
        return complain(PROGRAM, error)
    except (Inconclusive, NotApplicable) as error:
        complain(PROGRAM, error.message)
        return INCONCLUSIVE
    finally:
        opened.close()
    if arguments.json:
        show_json(_document(known, opened.target, scope.snapshot.taken_at))
    else:
        show("\n".join(_lines(known, opened.target, scope.snapshot.taken_at, width(arguments.columns))))
    return 0


def _options(arguments: argparse.Namespace) -> Options:
    return Options(
        kubeconfig=arguments.kubeconfig,
        context=arguments.context,
        in_cluster=arguments.in_cluster,
        snapshot=arguments.snapshot,
        simulate=arguments.simulate,
        policy=arguments.policy,
    )


def _read(opened: OpenTarget, ids: Iterable[str]) -> Scope:
    """The cluster as far as the answer needs it, seen through the policy and the presets that its marks choose."""
    snapshot = opened.offline
    if snapshot is None:
        assert opened.cluster is not None
        keys = ["nodes", "pods", "namespaces", *(key for id_ in ids for key in load_catalogue().get(id_).lists)]
        snapshot = collect(opened.cluster, keys, version=opened.target.kubernetes_version)
        opened.target.cluster_uid = snapshot.cluster_uid
    describe(opened.target, snapshot.listing("nodes"))
    if not opened.policy.platform and (found := chosen_by_marks(snapshot)):
        opened.adopt(found)
    return Scope(snapshot, opened.policy)


def _known(scope: Scope, opened: OpenTarget, kind: str, name: str) -> Known:
    if kind == "node":
        return _node(scope, opened, name)
    return _pod(scope, name) if kind == "pod" else _device(scope, name)


def _pod(scope: Scope, name: str) -> Known:
    namespace, _, own = name.rpartition("/")
    found = [pod for pod in scope.snapshot.pods if pod.name == own and namespace in ("", pod.namespace)]
    if len(found) == 1:
        return known_pod(scope, found[0])
    names = {f"{pod.namespace}/{pod.name}": pod for pod in found or scope.snapshot.pods}
    if found:
        raise NoSuchName(f"{len(found)} pods have the name {one_line(own, _NAME)!r}: {one_line(listed(in_order(names)), _TEXT)}")
    raise NoSuchName(_unknown("pod", name, names if namespace else [*names, *(pod.name for pod in names.values())]))


def _device(scope: Scope, name: str) -> Known:
    by_slice = names_of_devices(scope)
    if name in by_slice:
        return known_device(scope, *by_slice[name])
    by_kubelet = kubelets_devices(scope)
    if name in by_kubelet:
        return known_by_kubelet(name, by_kubelet[name])
    if unread := scope.claims.unread(SLICES) if scope.snapshot.listing(SLICES).trouble else "":
        raise Inconclusive("Forbidden", unread)
    unknown = _unknown("device", name, [*by_slice, *by_kubelet])
    raise NoSuchName(f"{unknown}. {WHO_KNOWS}")


def _node(scope: Scope, opened: OpenTarget, name: str) -> Known:
    node = scope.snapshot.node_by_name.get(name)
    if node is None:
        raise NoSuchName(_unknown("node", name, scope.snapshot.node_by_name))
    return known_node(scope, node, fields_of(scope.snapshot, [node], lambda name: read_fields(_cluster(opened), "nodes", name)))


def _cluster(opened: OpenTarget) -> Cluster:
    assert opened.cluster is not None
    return opened.cluster


def _unknown(kind: str, name: str, names: Iterable[str]) -> str:
    """That nothing has a name, with the nearest names, or some of those that there are."""
    every = list(names)
    near = difflib.get_close_matches(name, every, n=3, cutoff=0.5)
    others = f"did you mean {listed(near)}?" if near else f"known: {listed(in_order(every), 8)}" if every else f"no {kind} is known"
    return f"no {kind} {one_line(name, _NAME)!r}; {one_line(others, _TEXT)}"


def _lines(known: Known, where: Target, now: float, columns: int) -> Iterable[str]:
    if words := banner(where):
        yield f"*** {words} ***"
    yield one_line(known.answer, 4 * _TEXT)
    yield ""
    headers = ("fact", "value", "source", "since") if columns >= _WIDE else ("fact", "value, and where it is from")
    longest = max((len(line) for fact in known.facts for line in _wrapped(one_line(fact.name, _NAME), _WIDTHS[0]).split("\n")), default=0)
    about = ""
    rows: list[list[str]] = []
    for fact in known.facts:
        if fact.about != about:
            about = fact.about
            rows.append([f"-- {about}", *("" for _ in headers[1:])])
        by = f", by {fact.owner}" if fact.owner and fact.owner not in fact.value else ""
        name, value, source = one_line(fact.name, _NAME), one_line(fact.value + by, _TEXT), one_line(fact.source, _NAME)
        since = _since(fact, now)
        if columns >= _WIDE:
            rows.append([*map(_wrapped, (name, value, source), _WIDTHS), since])
        else:
            origin = ", ".join(filter(None, (source, since)))
            texts = [_wrapped(text, max(columns - longest - 2, _LEAST)) for text in (value, f"({origin})") if text]
            rows.append([_wrapped(name, _WIDTHS[0]), "\n".join(texts)])
    yield tabulate(rows, headers=headers, disable_numparse=True)
    for text in known.unread:
        yield one_line(f"Not known: {text}", _TEXT)


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)


def _since(fact: Fact, now: float) -> str:
    age = fact.since.age(now)
    return "" if age is None else f"{duration(age)} ago"


def _document(known: Known, where: Target, now: float) -> Any:
    """``{schemaVersion, target, kind, name, state, answer, facts, notRead}``; a fact has a time only where something says it."""
    return {
        "schemaVersion": "1.0",
        "target": {"kind": str(where.kind), "server": one_line(where.server, _NAME), "simulated": where.simulated},
        "readAt": _utc(now),
        "kind": known.kind,
        "name": one_line(known.name, _NAME),
        "state": known.state,
        "answer": one_line(known.answer, 4 * _TEXT),
        "facts": [
            {
                "about": fact.about,
                "name": one_line(fact.name, _NAME),
                "value": one_line(fact.value, _TEXT),
                "source": one_line(fact.source, _NAME),
                "owner": one_line(fact.owner, _NAME),
                "since": _utc(fact.since.latest) if fact.since.latest is not None else None,
                "sinceSource": one_line(fact.since.source, _NAME),
            }
            for fact in known.facts
        ],
        "notRead": [one_line(text, _TEXT) for text in known.unread],
    }


def _utc(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
