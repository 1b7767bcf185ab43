"""The figure that a run's bus bandwidth is held against: the policy's, else a measured one of the same product and fabric.

Facts: docs/facts/nccl.md#bandwidths.
"""

import re
from contextlib import suppress

import msgspec

from conformance.net.ports import speeds
from conformance.net.two_nodes import FabricRun
from conformance.outputs import nccl_log, nccl_tests
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.nccl_lines import NcclLog
from conformance.outputs.nccl_log import NcclCode
from fixtures.policy.model import Network
from fixtures.tables.rows import BUS_BANDWIDTHS, Measured
from fixtures.text.globs import matches

_OTHER_FORMS = {"PCIE", "NVL"}
"""Words of products whose devices have no NVSwitch, although the model's name is the same."""
_PLUGINS = (("FasTrak", "tcpxo"), ("GPUDirectTCPX", "tcpx"), ("AWS Libfabric", "efa"), ("Libfabric", "efa"))
_LINKS = {"IB": "infiniband", "RoCE": "roce"}
KEYS = "network.busBandwidths or network.minBusBandwidth of the policy gives one"


class Fabric(msgspec.Struct, frozen=True):
    """What a run went over: ``infiniband``, ``roce``, ``efa``, ``tcpxo``, ``tcpx``, ``nvlink`` or empty; and Gb/s of a node's adapters."""

    kind: str = ""
    gbits: float | None = None


class Figure(msgspec.Struct, frozen=True):
    """``minimum`` (GB/s) and where it is from; without one, ``words`` are why there is none. ``bytes``: the least size it is of."""

    minimum: float | None
    words: str
    bytes: int = 0

    def least_of(self, run: FabricRun) -> float | None:
        """What a run has to reach; None where its sizes are smaller than the figure's: those are slower anyway."""
        try:
            row = nccl_tests.largest(run.table)
        except Unreadable:
            return self.minimum
        return None if row is not None and row.size < self.bytes else self.minimum


def figure_of(run: FabricRun, network: Network, *, first: bool) -> Figure:
    """The figure of a run. The policy's wins: that of its product, then the one for all, which is of the ``first`` run, of most ranks."""
    for glob, minimum in network.bus_bandwidths.items():
        if matches(run.product, (glob,)):
            return Figure(minimum, f"network.busBandwidths of the policy, {glob}")
    if first and network.min_bus_bandwidth is not None:
        return Figure(network.min_bus_bandwidth, "network.minBusBandwidth of the policy")
    fabric = fabric_of(run)
    words = _words(run)
    found = [row for row in BUS_BANDWIDTHS.rows if _holds(row, run, words, fabric)]
    if found:
        row = min(found, key=lambda row: (row.ranks, -row.minimum))
        return Figure(row.minimum, str(row), row.bytes)
    speed = f"{fabric.gbits:g} Gb/s of " if fabric.gbits else ""
    what = f"{run.ranks} ranks of {run.product or 'an unknown product'} over {speed}{fabric.kind or 'a fabric that the log does not name'}"
    return Figure(None, f"no figure is known for {what}; {KEYS}")


def _holds(row: Measured, run: FabricRun, words: set[str], fabric: Fabric) -> bool:
    if row.per_node != run.per_node or run.ranks > row.ranks:
        return False
    if row.machine:  # it has this product and this fabric, whatever NCCL found of it
        return matches(run.machine, (row.machine,)) and fabric.kind in (row.fabric, "")
    if row.product not in words or words & _OTHER_FORMS:
        return False
    return row.fabric == fabric.kind and (not row.gbits or fabric.gbits == row.gbits)


def fabric_of(run: FabricRun) -> Fabric:
    """The fabric of a run, by its log's channels and adapters; unknown where NCCL went over sockets or printed none."""
    try:
        log = run.log
    except Unreadable:
        return Fabric()
    if nccl_log.judge(log).code is NcclCode.MNNVL:
        return Fabric("nvlink")
    names = (*(line.network for line in log.net_channels), *log.networks)
    if kind := next((kind for name in names for start, kind in _PLUGINS if name.startswith(start)), ""):
        return Fabric(kind)
    return _by_adapters(run, log)


def _by_adapters(run: FabricRun, log: NcclLog) -> Fabric:
    """The link type, if all adapters in use have one, and the speed of the host with the most: one that lost some is no other machine.

    A speed is NCCL's or, as older releases print none, sysfs's.
    """
    used, read = nccl_log.adapters_in_use(log), {pod.name: speeds(pod.log) for pod in run.pods}
    hosts = [[one.gbits or read.get(host, {}).get(one.name, 0.0) for one in adapters] for host, adapters in used.items()]
    links = {one.link for adapters in used.values() for one in adapters}
    kind = _LINKS.get(next(iter(links)), "") if len(links) == 1 else ""
    return Fabric(kind, max(map(sum, hosts), default=None) if all(map(all, hosts)) else None)


def _words(run: FabricRun) -> set[str]:
    """Words of the product's name; where the nodes name no known one, of the devices that the run's table names."""
    words = _split(run.product)
    if not any(row.product in words for row in BUS_BANDWIDTHS.rows):
        with suppress(Unreadable):
            words = words.union(*(_split(name) for _, _, name in run.table.rank_lines))
    return words


def _split(name: str) -> set[str]:
    return {word.upper() for word in re.split(r"[\s_-]+", name)}
