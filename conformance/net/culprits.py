"""Findings on where a slow or indirect run went wrong: nodes, adapters, rails. Pure.

Facts: docs/facts/nccl.md#bandwidths, docs/facts/nccl.md#evidence-of-gpudirect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from conformance.net.two_nodes import FabricRun, Located
from conformance.outputs.nccl_channel import Channel
from conformance.outputs.nccl_lines import NcclLog
from conformance.outputs.nccl_log import SOCKET_NETWORKS
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged
from fixtures.verdict.subjects import Subject

RUNS = "further runs of pairs of nodes"
LOG = "channel lines of the NCCL log"
WITHOUT_PATH, SLOW_NODE, SLOW_ADAPTER = "NodeWithoutFastPath", "NodeSlowOnFabric", "AdapterSlow"


def where_it_went_wrong(run: FabricRun, *, indirect: bool) -> Iterator[Finding]:
    """What further runs found: the nodes and the adapter, or why none can be named. Nothing where none was made."""
    located = run.located
    if located is None:
        return
    found = located.found
    for name in found.named:
        what = "takes another path than the fast one" if indirect else "is slow or fails"
        message = f"every run with it {what}, and {listed(found.fine)} did well without it ({found.rounds} rounds of pairs)"
        about = About(Subject("Node", name), RUNS, "runs with it do as well as those of other nodes of its kind", "no run with it did well")
        yield about.bad(message, cause=WITHOUT_PATH if indirect else SLOW_NODE)
    if located.adapter:
        yield _adapter(located)
    if not found.named:
        yield not_judged(Subject("NCCL run", "which node", run.namespace), message=_why_none(located), source=RUNS)


def _adapter(located: Located) -> Finding:
    here, there = located.ends
    node = here if here in located.found.named else ""
    subject = Subject("adapter", f"{node}/{located.adapter}") if node else Subject("rail", f"{located.adapter} of {here} and {there}")
    about = About(subject, "runs with NCCL_IB_HCA", "its share of the figure", "less than its share of the figure")
    message = f"a run of {here} and {there} over {located.adapter} alone is slow, and over other adapters it is not"
    return about.bad(message, cause=SLOW_ADAPTER)


def _why_none(located: Located) -> str:
    found, nodes = located.found, located.nodes
    if len(nodes) < 3:
        return f"which of {' and '.join(nodes)} it is cannot be known: no third node of their kind is free"
    if found.contradicting:
        pair = " and ".join(found.contradicting[0])
        return f"{pair} do well with other nodes and not together: look at the path between them and who else uses it, or run it again"
    if not found.fine:
        return f"no run of {listed(nodes)} did well: it is no single node"
    return f"it is one of {listed(found.open)}, and {found.rounds} rounds of pairs did not prove which"


def indirect_sides(log: NcclLog, placement: Mapping[int, str]) -> Iterator[Finding]:
    """Nodes, and adapters of nodes, whose side of every channel lacks GPUDirect while others have it: each side logs its own."""
    sides: dict[str, dict[str, list[Channel]]] = defaultdict(lambda: defaultdict(list))
    for line in log.net_channels:
        node = placement.get(line.dst if line.direction == "receive" else line.src)
        if node is not None and line.direction and not line.collective:
            name = log.adapters.get(line.host, {}).get(line.device)
            sides[node][name.name if name else f"device {line.device}"].append(line)
    without = {node: [name for name, lines in by.items() if not any(line.gdr for line in lines)] for node, by in sides.items()}
    whole = [node for node, names in without.items() if len(names) == len(sides[node])]
    for node, names in sorted(without.items()):
        if node in whole and len(whole) < len(sides):
            yield _indirect(Subject("Node", node), WITHOUT_PATH, sides[node][names[0]][0])
        elif node not in whole:
            yield from (_indirect(Subject("adapter", f"{node}/{name}"), SLOW_ADAPTER, sides[node][name][0]) for name in names)


def _indirect(subject: Subject, cause: str, line: Channel) -> Finding:
    how = "over sockets" if line.network in SOCKET_NETWORKS else "without GPUDirect RDMA"
    about = About(subject, LOG, "via NET/…/GDRDMA, as on the other side", f"via {line.via}")
    return about.bad(f"its side of every channel goes {how}, and others go directly", cause=cause)
