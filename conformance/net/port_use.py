"""NET-07: what the ports of both nodes counted during a run over the fabric: its payload, and no errors. Pure.

Facts: docs/facts/rdma.md#counters-of-ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conformance.net.port_counters import PortUse, uses
from conformance.net.two_node_run import FabricRun, RankPod
from conformance.outputs import nccl_log
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nccl_log import NcclCode
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import Subject

_SOURCE = "counters of ports in sysfs, before and after the run"
_EXPECTED = "ports that carry the payload and count no errors"
_WORD = 4  # bytes that a step of the data counters stands for
_SENT = {"port_xmit_data": _WORD, "tx_bytes": 1}
_RECEIVED = {"port_rcv_data": _WORD, "rx_bytes": 1}
_TOLERATED = {"symbol_error": 10, "link_error_recovery": 10}
"""Growth that a healthy link may show (infiniband-diags, ``error_thresholds``)."""

_BY_LOSS = ("local_ack_timeout_err",)
_BY_LINK = ("link_downed", "port_rcv_errors", "local_link_integrity_errors", "excessive_buffer_overrun_errors")
"""Of the hardware's counters only time-outs prove loss: adaptive routing brings packets out of sequence on a healthy fabric."""

_ELSEWHERE = {NcclCode.MNNVL: "NVLink between the nodes", NcclCode.TCPX_GPUDIRECT: "GPUDirect-TCPX"}


def judge_ports(run: FabricRun) -> Iterator[Finding]:
    """One finding for the ports of each node: they moved by the payload at least, and their error counters did not."""
    try:
        code = nccl_log.judge(run.log).code
    except Unreadable:
        code = None
    for pod in run.pods:
        place = Subject("Node", f"{pod.node} RDMA ports")
        if code in _ELSEWHERE:
            yield not_judged(place, message=f"the payload goes by {_ELSEWHERE[code]}, which these ports do not count", source=_SOURCE)
        else:
            yield _judge(place, run, pod)


def _judge(place: Subject, run: FabricRun, pod: RankPod) -> Finding:
    ports = list(uses(pod.log))
    least = _payload(run)
    if not ports:
        return undecided(place, message=f"{pod.name} read no port twice: sysfs has none, or the run ended early", source=_SOURCE)
    sent, received = _moved(ports, _SENT), _moved(ports, _RECEIVED)
    observed = f"{_bytes(sent)} out, {_bytes(received)} in over {len(ports)} ports"
    about = About(place, _SOURCE, _EXPECTED, observed)
    if errors := [words for port in ports if (words := _errors(port))]:
        words = listed(errors, 3)
        message = f"{words} during one run: a cable, a transceiver or a port loses packets, and every collective over it waits"
        return about.bad(message, cause="PortErrors", observed=f"{observed}; {words}")
    if least is None:
        return about.undecided(f"how much the run sent is not known: it printed no table; {observed}")
    blind = [port for port in ports if not (_SENT.keys() & port.grown and _RECEIVED.keys() & port.grown)]
    if min(sent, received) < least and blind:
        names = listed([f"{port.adapter} port {port.port}" for port in blind], 3)
        return about.undecided(f"{observed}, and {names} do not count what they carry")
    if min(sent, received) < least:
        message = f"{observed}, and the run sent {_bytes(least)} at least: its payload took another way"
        return about.bad(message, cause="PayloadElsewhere")
    return about.ok()


def _payload(run: FabricRun) -> int | None:
    """Bytes that left each node at least: every size once for each half of the table, as with a reduction inside the switches."""
    try:
        rows = run.table.rows
    except Unreadable:
        return None
    return sum(row.size * (2 if row.in_place else 1) for row in rows) or None


def _moved(ports: Sequence[PortUse], counters: dict[str, int]) -> int:
    return sum(port.grown.get(name, 0) * step for port in ports for name, step in counters.items())


def _errors(port: PortUse) -> str:
    found = {name: port.grown.get(name, 0) for name in (*_TOLERATED, *_BY_LINK, *_BY_LOSS)}
    over = [f"{name} {count}" for name, count in found.items() if count > _TOLERATED.get(name, 0)]
    return f"{port.adapter} port {port.port} counted {', '.join(over)}" if over else ""


def _bytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
