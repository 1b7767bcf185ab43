"""``python -m tests.simulator.localcluster.matrix``: every scenario and defect judged on the embedded cluster and on real Kubernetes.

Prints a line for each row and the figures, writes the rows as JSON. Exit status 0 when everything that differs is known, 1 when
something is not, 2 when there is no control plane on this machine.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import msgspec

from fixtures.localcluster.install.release import Binaries, BinariesMissing, UnknownMinor, find
from tests.simulator.localcluster.known import CANNOT_EXIST
from tests.simulator.localcluster.packing import Pack, packed, single
from tests.simulator.localcluster.rows import ROOT, Row, all_names, judge

OUT = ROOT / "out" / "local-matrix.json"


class LocalMatrix(msgspec.Struct, rename="camel", kw_only=True):
    """All runs. ``rows`` counts scenarios and defects that can exist; ``compared`` and ``equal`` verdicts of their runs."""

    kubernetes_version: str
    runs: list[Row]
    rows: int = 0
    compared: int = 0
    equal: int = 0
    known: int = 0
    unknown: int = 0
    cannot_exist: int = 0

    @classmethod
    def of(cls, version: str, runs: Sequence[Row]) -> "LocalMatrix":
        """Count."""
        differing = [one for row in runs for one in row.differing]
        return cls(
            kubernetes_version=version,
            runs=sorted(runs, key=lambda row: row.names),
            rows=sum(len(row.names) for row in runs if row.compared),
            compared=sum(row.compared for row in runs),
            equal=sum(row.equal for row in runs),
            known=sum(bool(one.known) for one in differing),
            unknown=sum(not one.known for one in differing) + sum(bool(row.trouble) for row in runs),
            cannot_exist=sum(len(row.names) for row in runs if row.cannot_exist),
        )


def run(packs: Sequence[Pack], binaries: Binaries, *, jobs: int, tell: Callable[[Row, int], None]) -> LocalMatrix:
    """Judge them, ``jobs`` at a time."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-local-matrix-") as folder, ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(judge, pack, binaries.minor, Path(folder)) for pack in packs]
        for done, future in enumerate(as_completed(futures), 1):
            for row in future.result():
                rows.append(row)
                tell(row, done)
    return LocalMatrix.of(binaries.version, rows)


def line(row: Row) -> str:
    """What the terminal says of a row."""
    if row.trouble:
        return f"NOT JUDGED: {row.trouble}"
    if row.cannot_exist:
        return f"cannot exist: {row.cannot_exist}"
    if not row.differing:
        return f"same ({row.equal} verdicts, {row.seconds:.0f} s)"
    stated = [f"{one.id} {one.embedded} here, {one.real} there{'' if one.known else ' (UNKNOWN): ' + one.message}" for one in row.differing]
    return f"{'DIFFERS' if row.unknown else 'differs, known'}: {'; '.join(stated)} ({row.equal} same, {row.seconds:.0f} s)"


def figures(matrix: LocalMatrix) -> str:
    """The closing line."""
    return (
        f"Kubernetes {matrix.kubernetes_version}: {matrix.rows} rows compared, {matrix.cannot_exist} cannot exist; "
        f"{matrix.compared} verdicts compared, {matrix.equal} equal, {matrix.known} differ for a known reason, {matrix.unknown} unknown"
    )


def plan(names: Sequence[str], *, apart: bool) -> list[Pack]:
    """The runs for these scenarios and defects; those that cannot exist stand alone."""
    if apart:
        return [single(name) for name in names]
    return [*packed([name for name in names if name not in CANNOT_EXIST]), *(single(name) for name in names if name in CANNOT_EXIST)]


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.localcluster.matrix", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--minor", default=None, help="Kubernetes minor, 1.37, 1.36 or 1.35")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="scenarios and defects; default: all")
    parser.add_argument("--json", metavar="FILE", type=Path, default=OUT, help="write the rows there")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, each with a control plane of its own")
    parser.add_argument("--single", action="store_true", help="a run for each defect, also where several could share one")
    options = parser.parse_args(arguments)
    names = options.only or all_names()
    if wrong := [name for name in names if name not in all_names()]:
        print(f"no scenario or defect {', '.join(wrong)}", file=sys.stderr)
        return 2
    try:
        binaries = find(options.minor)
    except (BinariesMissing, UnknownMinor) as error:
        print(error, file=sys.stderr)
        return 2
    started, packs = time.monotonic(), plan(names, apart=options.single)
    matrix = run(
        packs,
        binaries,
        jobs=max(options.jobs, 1),
        tell=lambda row, done: print(f"{done:3}/{len(packs)} {row.simulate}\n        {line(row)}", flush=True),
    )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(matrix), indent=2) + b"\n")
    print(f"{figures(matrix)}; {time.monotonic() - started:.0f} s")
    return 1 if matrix.unknown else 0


if __name__ == "__main__":
    raise SystemExit(main())
