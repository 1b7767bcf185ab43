"""Findings from the logs of a two-node run (NET-05 and NET-06), and on the nodes, adapters and rails where it went wrong. Pure.

Facts: docs/facts/nccl.md#evidence-of-gpudirect, docs/facts/nccl.md#nccl-tests, docs/facts/nccl.md#bandwidths.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from conformance.causes import cause_of
from conformance.net.figures import Figure
from conformance.net.two_nodes import FabricRun, Located
from conformance.outputs import nccl_log, nccl_tests
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nccl_channel import Channel
from conformance.outputs.nccl_lines import NcclLog
from conformance.outputs.nccl_log import SOCKET_NETWORKS, NcclCode
from conformance.outputs.nccl_tests import NcclTests, NcclTestsCode
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, Outcome, not_judged, undecided
from fixtures.verdict.record import Measure
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject

RUNS = "further runs of pairs of nodes"
LOG = "channel lines of the NCCL log"
WITHOUT_PATH, SLOW_NODE, SLOW_ADAPTER = "NodeWithoutFastPath", "NodeSlowOnFabric", "AdapterSlow"
_BANDWIDTH = "bus bandwidth"
TABLE = "all-reduce table of the run"

_NOT_DIRECT = (NcclCode.PARTIAL_GDR, NcclCode.RDMA_WITHOUT_GDR)
_SOCKETS = "TrafficOverSockets"
_INDIRECT = {NcclCode.SOCKET_FALLBACK: _SOCKETS, **dict.fromkeys(_NOT_DIRECT, "TrafficNotDirect")}
"""Causes of traffic that does not go from device to device, by the verdict over the log."""


def of_each(
    results: Sequence[FabricRun | NotApplicable | Inconclusive], judge: Callable[[FabricRun, bool], Iterator[Finding]]
) -> Iterator[Finding]:
    """What ``judge`` makes of every run; its second argument is whether the run is the first, which has the most ranks.

    Subjects of further runs name their nodes. A kind of machine without a run is undecided, or not judged where none could be.
    """
    for result in results[1:]:
        if isinstance(result, FabricRun):
            yield from _further(result, judge)
        else:
            yield _without_run(result)
    if isinstance(results[0], FabricRun):
        yield from judge(results[0], True)
    else:
        yield _without_run(results[0])


def _without_run(reason: NotApplicable | Inconclusive) -> Finding:
    about = About(Subject("NCCL run", f"a kind of machine: {reason.code}"), "plan of the run")
    if isinstance(reason, NotApplicable):
        return about.not_judged(reason.message)
    return about.undecided(reason.message, cause=cause_of(reason.code))


def _further(run: FabricRun, judge: Callable[[FabricRun, bool], Iterator[Finding]]) -> Iterator[Finding]:
    where = " + ".join(pod.node for pod in run.pods)
    try:
        for finding in judge(run, False):
            subject = finding.subject
            if subject.namespace:  # a part of the run, and no node
                subject = Subject(subject.kind, f"{subject.name} on {where}", subject.namespace)
            yield msgspec.structs.replace(finding, subject=subject)
    except Inconclusive as reason:
        yield undecided(Subject("NCCL run", where, run.namespace), cause=cause_of(reason.code), message=reason.message, source=LOG)


def judge_transport(run: FabricRun, accepted: Sequence[str]) -> Iterator[Finding]:
    """NET-05: every channel between nodes is of an accepted transport, in both directions, and the pods are on different nodes.

    Raises :class:`Inconclusive` when the logs are no evidence.
    """
    log = _read_log(run)
    yield from _judge_nodes(run)
    yield _judge_verdict(run, log, accepted)
    verdict = nccl_log.judge(log)
    indirect = verdict.code in _INDIRECT and verdict.code.value not in accepted
    found = list(where_it_went_wrong(run, indirect=indirect)) if verdict.failures or indirect else []
    yield from found
    if verdict.code is NcclCode.TCPX_GPUDIRECT:
        return  # its plugin prints no channels: the verdict over the whole is all there is
    placement = run.placement(log)
    pairs: dict[tuple[int, int], list[Channel]] = defaultdict(list)
    strangers = 0
    collective: dict[int, list[Channel]] = defaultdict(list)
    for line in log.channels:
        if line.collective and line.src in placement:
            collective[line.src].append(line)
        elif line.src not in placement or line.dst not in placement:
            strangers += 1
        elif placement[line.src] != placement[line.dst]:
            pairs[(line.src, line.dst)].append(line)
    missing: dict[tuple[int, int], list[nccl_log.Uncovered]] = defaultdict(list)
    for item in nccl_log.uncovered(log, placement):
        missing[(item.src, item.dst)].append(item)
    for pair, lines in sorted(pairs.items()):
        yield _judge_ways(run.part("rank pair", f"{pair[0]} -> {pair[1]}"), lines, missing[pair], accepted)
    for rank, lines in sorted(collective.items()):
        yield _judge_ways(run.part("rank", f"{rank} -> switches"), lines, [], accepted)
    if not any(code.value in accepted for code in _NOT_DIRECT):
        named = {finding.subject for finding in found}
        yield from (finding for finding in indirect_sides(log, placement) if finding.subject not in named)
    silent = nccl_log.silent_ranks(log, placement)
    for there, here in nccl_log.one_way_nodes(log, placement):
        about = About(run.part("node pair", f"{here} -> {there}"), LOG, "channels in both directions", "no channel")
        message = f"channels go from {there} to {here} and none back: half of the traffic is unaccounted for"
        yield about.bad(message, cause="TrafficNotDirect")
    lacking = [(run.part("rank", str(rank)), "no channel line names it: its part of the log is missing") for rank in silent]
    if strangers:
        lacking.append((run.subject, f"{strangers} channel lines name ranks that were not asked for, on nodes unknown"))
    yield from (undecided(place, cause="LogIncomplete", message=message, source=LOG) for place, message in lacking)


def _read_log(run: FabricRun) -> NcclLog:
    if (pod := run.unable()) is not None:
        raise Inconclusive("CommandNotFound", f"the image could not run the command: {pod.state}; {_tail(pod.log)}")
    try:
        log = run.log
    except Unreadable as error:
        raise Inconclusive("NoEvidence", f"the pods printed no NCCL log ({error}); {run.outcome()}") from None
    quiet = [pod.name for pod in run.pods if "NCCL" not in pod.log and pod.name not in log.hosts]  # one launcher may print for all
    if quiet:
        raise Inconclusive("NoEvidence", f"the log of {', '.join(quiet)} holds no line of NCCL; {run.outcome()}")
    return log


def _judge_nodes(run: FabricRun) -> Iterator[Finding]:
    count = Counter(pod.node for pod in run.pods)
    for pod in run.pods:
        about = About(run.part("Pod", pod.name), "pod.spec.nodeName", "a node of its own", f"node {pod.node}")
        together = f"{count[pod.node]} pods of the run are on {pod.node}: between them nothing crosses the fabric"
        yield about.ok() if count[pod.node] == 1 else about.undecided(together, cause="ProbeDidNotRun")


def _judge_verdict(run: FabricRun, log: NcclLog, accepted: Sequence[str]) -> Finding:
    verdict = nccl_log.judge(log)
    networks = ", ".join(log.networks) or "unknown"
    observed = f"{verdict.code.value}: {verdict.message} (network {networks}; {len(log.net_channels)} network channels)"
    expected = f"{' or '.join(accepted)} and no failure warning"
    about = About(run.subject, LOG, expected, observed)
    if verdict.failures:
        return about.bad(f"NCCL warns: {verdict.failures[0][:300]}", cause="NcclWarns", source="NCCL WARN")
    if verdict.code in nccl_log.UNDECIDABLE_CODES:
        return about.undecided(f"{verdict.code.value}: {verdict.message}", cause="LogIncomplete")
    if verdict.code.value not in accepted:
        slow = "so GPU memory does not travel by GPUDirect RDMA and collectives run at a fraction of the fabric's speed"
        return about.bad(f"{verdict.message}, {slow}", cause=_INDIRECT.get(verdict.code, "TrafficNotDirect"))
    if verdict.doubts:
        message = f"NCCL warns of an error that is not known to this suite: {verdict.doubts[0][:300]}"
        return about.undecided(message, source="NCCL WARN")
    return about.ok()


def _judge_ways(subject: Subject, lines: list[Channel], missing: list[nccl_log.Uncovered], accepted: Sequence[str]) -> Finding:
    """How channels between nodes go, and whether both of their ends were logged."""
    ways = Counter(f"{line.via}{f' [{line.direction}]' if line.direction else ''}" for line in lines)
    observed = ", ".join(f"{count} via {way}" for way, count in ways.most_common(4)) + (" …" if len(ways) > 4 else "")
    expected = "every channel via NET/…/GDRDMA, sent and received"
    about = About(subject, LOG, expected, observed)
    for line in lines:
        if problem := _problem(line, accepted):
            return about.bad(problem, cause=_SOCKETS if line.network in SOCKET_NETWORKS else "TrafficNotDirect")
    if missing:
        first = missing[0]
        message = f"{len(missing)} channels were logged by one side only (channel {first.channel:02d} has no [{first.missing}] line)"
        return about.bad(message, cause="TrafficNotDirect")
    return about.ok()


def _problem(line: Channel, accepted: Sequence[str]) -> str:
    """What is wrong with one channel between nodes, as a sentence; empty when it goes as the policy accepts."""
    where = f"channel {line.channel:02d} goes via {line.via[:80] or 'a transport that the log does not name'}"
    if not line.understood:
        return f"{where}, which is not understood: it was not seen to be direct"
    if line.is_net:
        if line.network in SOCKET_NETWORKS:
            return f"{where}: over TCP, through both hosts' CPUs"
        if not line.gdr and not any(code in accepted for code in _NOT_DIRECT):
            return f"{where}, without GPUDirect RDMA: every byte is copied through host memory"
        return ""
    if line.via.startswith("P2P/MNNVL"):
        return "" if NcclCode.MNNVL in accepted else f"{where}: multi-node NVLink, which network.accepted does not name"
    return f"{where}, which is no transport between nodes"


def judge_bandwidth(run: FabricRun, figure: Figure) -> Iterator[Finding]:
    """NET-06: the table's largest size, the number of ranks, and wrong values. A missing measurement fails.

    Without a figure's minimum, or with sizes that are smaller than the figure's, a run can fail and not pass: nothing says what the fabric
    should reach. Raises :class:`Inconclusive` when the image could not run the command at all.
    """
    why = figure.words if figure.minimum is None else ""
    for finding in _measured(run, figure):
        if finding.outcome is Outcome.NOT_JUDGED and finding.subject.name == _BANDWIDTH:
            why = finding.message
        if why and finding.outcome is Outcome.OK:
            finding = not_judged(finding.subject, message=f"{why} ({finding.observed})", source=finding.source)
        yield finding


def unless_without_figure(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings of all runs. Raises :class:`NotApplicable` at their end where none of them says more than that a figure is missing."""
    silent: list[Finding] = []
    judged = False
    for finding in findings:
        if finding.outcome is Outcome.NOT_JUDGED:
            silent.append(finding)
        else:
            judged = True
            yield finding
    if silent and not judged:
        first = next((one for one in silent if one.subject.name.startswith(_BANDWIDTH)), silent[0])
        raise NotApplicable("NoFigure", first.message)
    yield from silent


def _measured(run: FabricRun, figure: Figure) -> Iterator[Finding]:
    if (pod := run.unable()) is not None:
        raise Inconclusive("CommandNotFound", f"the image could not run the command: {pod.state}; {_tail(pod.log)}")
    least = figure.minimum
    expected = "a bandwidth" if least is None else f"at least {least:g} GB/s at the largest size ({figure.words})"
    try:
        table = run.table
    except Unreadable as error:
        message = f"no bandwidth was measured ({error}): {run.outcome()}; {_tail(run.pods[0].log)}"
        yield About(run.part("measurement", _BANDWIDTH), TABLE, expected, "no table").bad(message, cause="BandwidthNotMeasured")
        return
    largest = _judge_largest(run, table, figure, expected)
    row = nccl_tests.largest(table)
    measure = Measure(value=row.out_of_place.busbw, unit="GB/s", least=figure.minimum) if row else None
    yield msgspec.structs.replace(largest, measure=measure)
    if largest.outcome is Outcome.BAD:
        yield from where_it_went_wrong(run, indirect=largest.cause in _INDIRECT.values())
    yield _judge_ranks(run, table)
    yield _judge_values(run, table)


def _judge_largest(run: FabricRun, table: NcclTests, figure: Figure, expected: str) -> Finding:
    subject = run.part("measurement", _BANDWIDTH)
    row = nccl_tests.largest(table)
    average = f"; the average over all sizes, {table.average:g} GB/s, is not judged" if table.average is not None else ""
    measured = f"{row.out_of_place.busbw:g} GB/s at {row.size} bytes" if row else "no row"
    problem = nccl_tests.measurement(table, run.ranks)
    why = f"{problem[1]}: {run.outcome()}" if problem else f"the run failed: {table.failures[0]}" if table.failures else ""
    about = About(subject, TABLE, expected, f"{measured}{average}")
    if row is None or why:
        return about.bad(why, cause="BandwidthNotMeasured")
    if figure.minimum is None or row.out_of_place.busbw >= figure.minimum:
        return about.ok()
    if figure.least_of(run) is None:
        message = f"{measured}: the figure is one of {figure.bytes} bytes, and smaller sizes are slower ({figure.words})"
        return about.not_judged(message)
    cause, how = _why_low(run)
    low = f"{measured} is less than {figure.minimum:g} ({figure.words})"
    return about.bad(f"{low}, so training steps wait for gradients: {how}", cause=cause)


def _why_low(run: FabricRun) -> tuple[str, str]:
    """The cause of a low figure and a clause, by how the traffic went."""
    try:
        verdict = nccl_log.judge(run.log)
    except Unreadable:
        return "BandwidthLow", "and how the traffic went is not known, as NCCL printed no log"
    if verdict.code in _INDIRECT:
        return _INDIRECT[verdict.code], verdict.message
    if verdict.code in nccl_log.GPU_DIRECT_CODES:
        return "BandwidthLow", f"the path is the fast one ({verdict.message}), and a part of it is slow"
    return "BandwidthLow", f"and how the traffic went is not known ({verdict.message})"


def _judge_ranks(run: FabricRun, table: NcclTests) -> Finding:
    observed = f"{len({rank for rank, _, _ in table.rank_lines})} ranks in {len(table.rank_lines)} lines"
    about = About(run.part("measurement", "ranks"), TABLE, f"{run.ranks} ranks, each once", observed)
    if not table.rank_lines:
        return about.undecided("the output lists no ranks: how many took part is not known", cause="LogIncomplete")
    if problem := nccl_tests.participation(table, run.ranks):
        return about.bad(f"{problem[1]}: this is not the run that was asked for", cause="BandwidthNotMeasured")
    return about.ok()


def _judge_values(run: FabricRun, table: NcclTests) -> Finding:
    code, why = nccl_tests.values(table) or (NcclTestsCode.OK, "")
    about = About(run.part("measurement", "values"), TABLE, "0 wrong values")
    if code in nccl_tests.UNDECIDABLE_CODES:
        return about.undecided(f"{why}: {run.outcome()}", cause="LogIncomplete")
    if why:
        message = f"{why} in the result: memory, fabric or driver corrupts data, and training goes on with it"
        return about.bad(message, cause="ValuesWrong", observed=why)
    return about.ok(about.expected)


def _tail(log: str, lines: int = 3) -> str:
    """The end of a log in one line."""
    last = [line.strip() for line in log.splitlines() if line.strip()][-lines:]
    return "the log ends: " + " | ".join(line[:200] for line in last) if last else "the log is empty"


# -- which node, which adapter ----------------------------------------------------------------------


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
    subject = (
        Subject("adapter", f"{node}/{located.adapter}", node=node) if node else Subject("rail", f"{located.adapter} of {here} and {there}")
    )
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
            yield from (_indirect(Subject("adapter", f"{node}/{name}", node=node), SLOW_ADAPTER, sides[node][name][0]) for name in names)


def _indirect(subject: Subject, cause: str, line: Channel) -> Finding:
    how = "over sockets" if line.network in SOCKET_NETWORKS else "without GPUDirect RDMA"
    about = About(subject, LOG, "via NET/…/GDRDMA, as on the other side", f"via {line.via}")
    return about.bad(f"its side of every channel goes {how}, and others go directly", cause=cause)
