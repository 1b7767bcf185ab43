"""``python -m tests.chaos.selfcheck.meddled [ROW…]``: bugs that nobody seeded and healthy variations."""

import argparse
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from fixtures.verdict.record import Verdict
from tests.chaos.selfcheck import meddling
from tests.chaos.selfcheck.meddling import Meddled
from tests.chaos.selfcheck.runs import run


def check(row: Meddled, folder: Path) -> tuple[bool, bool]:
    """Run it: whether it came out as it should, and whether the cause is named. Prints a line."""
    folder.mkdir(parents=True)
    log = folder / "meddled.log"
    environment = {meddling.VARIABLE: row.name, meddling.VARIABLE + "_LOG": str(log)}
    simulated = ",".join([row.scenario, *row.defects])
    finished = run(folder / "report", "-p", meddling.__name__, "--simulate", simulated, ids=[row.experiment], environment=environment)
    result = finished.result(row.experiment)
    if result is None:
        print(f"{row.name:45} {row.experiment:5} exit code {finished.code}: {finished.tail}", flush=True)
        return False, False
    failed = [one for one in result.findings if one.verdict is Verdict.FAILED]
    named = not row.says or any(row.says in f"{one.name} {one.message}" for one in failed)
    good = result.verdict is (Verdict.PASSED if row.healthy else Verdict.FAILED)
    did = log.read_text(encoding="utf-8").strip().replace("\n", " | ") if log.exists() else "nothing"
    word = "as it should" if good and named else "cause not named" if good else "WRONG"
    print(f"{row.name:45} {row.experiment:5} {result.verdict.value:13} {word}: {result.message[:260]}  [{did[:200]}]", flush=True)
    return good, good and named


def main() -> int:
    """Run the rows."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.selfcheck.meddled", description=__doc__)
    parser.add_argument("row", nargs="*", default=["*"], help="names (globs); default: all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the reports; default: none is kept")
    options = parser.parse_args()
    chosen = [row for row in meddling.rows() if any(fnmatchcase(row.name, glob) for glob in options.row)]
    folder = options.keep or Path(tempfile.mkdtemp(prefix="gpu-conformance-meddled-"))
    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(lambda row: check(row, folder / row.name), chosen))
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    pairs = list(zip(chosen, found, strict=True))
    bugs, healthy = [one for row, one in pairs if not row.healthy], [good for row, (good, _) in pairs if row.healthy]
    caught, named = sum(good for good, _ in bugs), sum(named for _, named in bugs)
    print(f"caught {caught} of {len(bugs)}, cause named in {named}; green {sum(healthy)} of {len(healthy)}")
    return 0 if all(good for _, (good, _) in pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
