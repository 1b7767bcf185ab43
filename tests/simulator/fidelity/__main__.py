"""Ask the real API server and the simulated one the same: ``python -m tests.simulator.fidelity [--seed 2] [--minor 1.35]``.

Writes out/fidelity.json.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

import msgspec

from fixtures.localcluster.control_plane.control_plane import ControlPlane
from fixtures.localcluster.install.release import BinariesMissing, UnknownMinor, find, version_key
from tests.simulator.fidelity.allocation import compare_allocation
from tests.simulator.fidelity.amounts import ALL
from tests.simulator.fidelity.binding import compare_binding
from tests.simulator.fidelity.comparing import ASPECTS, BINDING, Difference, apart
from tests.simulator.fidelity.comparison import Comparison, add_allocation, add_binding, compare_servers
from tests.simulator.fidelity.known import WORDED_SINCE

OUT = Path(__file__).resolve().parents[3] / "out"
SHOWN = 12


def main(count: int, first: int, minor: str | None = None) -> int:
    """Compare, print agreement and the first differences of each aspect; 1 when one that binds is not explained, 2 without binaries."""
    try:
        binaries = find(minor)
    except (BinariesMissing, UnknownMinor) as error:
        print(error, file=sys.stderr)
        return 2
    with ControlPlane.start(binaries=binaries) as plane:
        found = compare_servers(plane, count, first)
        add_binding(found, compare_binding(plane, ALL.pods, first))
        if version_key(binaries.version)[:2] >= WORDED_SINCE:
            add_allocation(found, compare_allocation(plane, ALL.drivers, first))
    OUT.mkdir(exist_ok=True)
    (OUT / "fidelity.json").write_bytes(msgspec.json.format(msgspec.json.encode(found.document()), indent=2) + b"\n")
    report(found)
    return 1 if found.unexplained else 0


def report(found: Comparison) -> None:
    """Print agreement per kind, then differences: those that are not explained first."""
    by_kind = Counter((one.kind, one.aspect) for one in found.differences)
    for kind, number in sorted(found.compared.items()):
        aspects = {aspect: by_kind[kind, aspect] for aspect in ASPECTS if by_kind[kind, aspect]}
        binding = sum(count for aspect, count in aspects.items() if aspect in BINDING)
        print(f"{kind:12} {number - binding}/{number} agree on what binds; differences: {aspects or 'none'}")
    for reason, number in Counter(one.known for one in found.differences if one.known and one.aspect in BINDING).most_common():
        print(f"known {number:4}: {reason}")
    for aspect in ASPECTS:
        groups: dict[str, list[Difference]] = {}
        for one in found.differences:
            if one.aspect == aspect and not one.known:
                groups.setdefault(shape(one), []).append(one)
        for group in list(groups.values())[:SHOWN]:
            show(group[0], len(group))
    print(f"{found.version}: {found.compared.total()} compared, {len(found.unexplained)} unexplained differences in what binds")


def show(one: Difference, number: int) -> None:
    """Print one difference with both answers."""
    print(f"\n--- {number} times {one.aspect} ({one.kind}, namespace {one.namespace})\n{one.body['metadata']} {one.body['spec']}")
    if one.aspect == "object":
        print("\n".join(apart(one.real.object, one.simulated.object)[:6]))
        return
    for name, side in (("real", one.real), ("simulated", one.simulated)):
        print(f"{name:10} {side.status} {side.reason} {side.message[:600]} {side.warnings}")


def shape(one: Difference) -> str:
    """Groups differences: the causes or fields that one side has and the other lacks."""
    if one.aspect == "object":
        return " ".join(line.partition(":")[0] for line in apart(one.real.object, one.simulated.object)[:3])
    real, simulated = set(one.real.causes), set(one.simulated.causes)
    return f"{one.real.status} {one.simulated.status} {sorted(real - simulated)[:2]} {sorted(simulated - real)[:2]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.fidelity", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--requests", type=int, default=ALL.requests, help="how many requests")
    parser.add_argument("--seed", type=int, default=1, help="which requests")
    parser.add_argument("--minor", help="Kubernetes minor, 1.37, 1.36 or 1.35")
    options = parser.parse_args()
    raise SystemExit(main(options.requests, options.seed, options.minor))
