"""What ports of RDMA adapters counted during a run: read in its pods before and after the command, from the host's sysfs.

Facts: docs/facts/rdma.md#counters-of-ports.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fixtures.nodeprobe import host
from fixtures.nodeprobe.document import RdmaPort

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
                found.setdefault(when, host.ports_of(host.printed_files(lines)))
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
