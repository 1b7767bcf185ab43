"""NET-07: the ports of both nodes counted a run's payload and no errors. Its pods read them before and after, from the host's sysfs.

Facts: docs/facts/rdma.md#counters-of-ports.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.net.two_nodes import FabricRun, RankPod
from conformance.outputs import nccl_log
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nccl_log import NcclCode
from fixtures.nodeprobe import host
from fixtures.nodeprobe.document import RdmaPort
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding, not_judged, undecided
from fixtures.verdict.subjects import Subject

_MARK = "## ports of adapters"
_FULL = (1 << 32) - 1
"""Where a counter of 32 bits stops."""
_READ = f'grep -s "" {" ".join(host.PORT_FILES)}'


class PortUse(msgspec.Struct, frozen=True, kw_only=True):
    """A port as it was after a run, and by how much each counter had grown; one that was set back, or stands at its end, is left out."""

    adapter: str
    port: int
    state: str
    rate: str
    grown: Mapping[str, int]


def with_ports_read(command: str) -> str:
    """A shell script that reads the ports before and after a command and ends as the command does."""
    before, after = (f'echo "{_MARK} {when}"; {_READ}; echo "{_MARK} end"' for when in ("before", "after"))
    return f"{before}\n{command}\nstatus=$?\n{after}\nexit $status"


def ports_in(log: str) -> dict[str, list[RdmaPort]]:
    """The ports that a pod of the run read ``before`` and ``after``; a reading that is missing or cut off is left out."""
    found: dict[str, list[RdmaPort]] = {}
    when = ""
    lines: list[str] = []
    for line in log.replace("\r", "").split("\n"):
        if line.startswith(_MARK):
            word = line.removeprefix(_MARK).strip()
            if word == "end" and when:
                found.setdefault(when, list(host.ports_of(host.printed_files(lines))))
            when, lines = ("" if word == "end" else word), []
        elif when:
            lines.append(line)
    return found


def uses(log: str) -> Iterator[PortUse]:
    """What each port counted during the run. Nothing where a reading is missing, or a port was there once only."""
    found = ports_in(log)
    before = {(port.adapter, port.port): port for port in found.get("before", ())}
    for port in found.get("after", ()):
        if (old := before.get((port.adapter, port.port))) is not None:
            counted = ((name, value, old.counters.get(name)) for name, value in port.counters.items())
            grown = {name: value - start for name, value, start in counted if start is not None and value >= start and value != _FULL}
            yield PortUse(adapter=port.adapter, port=port.port, state=port.state, rate=port.rate, grown=grown)


def speeds(log: str) -> dict[str, float]:
    """Gb/s of each adapter's port that was read, by the adapter; of several ports the fastest."""
    found: dict[str, float] = {}
    for port in ports_in(log).get("before", ()):
        number, _, unit = port.rate.partition(" ")
        if unit.startswith("Gb/sec") and number.replace(".", "", 1).isdecimal():
            found[port.adapter] = max(found.get(port.adapter, 0.0), float(number))
    return found


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
