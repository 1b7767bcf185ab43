"""``make frozen``: write ``out/frozen.json``, or compare with such a file of before. Exit 1 where anything differs."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec

from tests.frozen.worlds import Row, Rows, digest, stored, worlds
from tests.samples import SAMPLES

OUT = Path(__file__).resolve().parents[2] / "out" / "frozen.json"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One requirement (signal, kind of output) in one world. Its rows are sorted."""

    world: str
    requirement: str
    digest: str
    rows: list[Row]


_WORLDS = worlds()


def line_of(world: str, requirement: str, rows: list[Row]) -> Line:
    """The line of rows in any order."""
    return Line(world=world, requirement=requirement, digest=digest(sorted(rows)), rows=sorted(rows))


def _lines(found: Mapping[str, Rows]) -> list[Line]:
    return [line_of(world, requirement, rows) for world, own in found.items() for requirement, rows in own.items()]


def _frozen(name: str) -> list[Line]:
    """The lines of one entry of ``worlds()``, in a process of the pool."""
    return _lines(_WORLDS[name]())


def freeze(folders: Path | None) -> list[Line]:
    """All lines, sorted."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = [line for lines in pool.map(_frozen, _WORLDS, chunksize=4) for line in lines]
    found += _lines(stored(folders)) if folders else []
    return sorted(found, key=lambda line: (line.world, line.requirement))


def differences(before: Sequence[Line], after: Sequence[Line]) -> Iterator[str]:
    """Each difference in words: world, requirement, subject, before → after. A whole world that is new or gone is one."""
    was = {(line.world, line.requirement): line for line in before}
    now = {(line.world, line.requirement): line for line in after}
    for words, ones, others in (("is gone", was, now), ("is new", now, was)):
        yield from (f"{world} {words}" for world in sorted({world for world, _ in ones} - {world for world, _ in others}))
    common = {world for world, _ in was} & {world for world, _ in now}
    for key in sorted(key for key in was.keys() | now.keys() if key[0] in common):
        old, new = was.get(key), now.get(key)
        if old is None or new is None or old.digest != new.digest:
            yield from (f"{key[0]}: {key[1]}: {words}" for words in _changed(old.rows if old else [], new.rows if new else []))


def _changed(old: list[Row], new: list[Row]) -> Iterator[str]:
    for subject in sorted({row[0] for row in (*old, *new)}):
        was, now = (sorted(row for row in rows if row[0] == subject) for rows in (old, new))
        if was != now:
            yield f"{subject or 'verdict'}: {_words(was, now)} → {_words(now, was)}"


def _words(rows: list[Row], others: list[Row]) -> str:
    """Those of the rows that the others have not, or how many there are where only their number differs."""
    shown = [" ".join(filter(None, row[1:])) for row in rows if row not in others]
    return "; ".join(shown) or (f"{len(rows)} findings" if rows else "nothing")


def main(arguments: Sequence[str]) -> int:
    """Freeze, and compare where a file is named."""
    parser = argparse.ArgumentParser(prog="make frozen")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with the frozen.json of before")
    parser.add_argument("--folders", type=Path, metavar="DIR", help="freeze also the verdicts of the experiments' folders below DIR")
    options = parser.parse_args(arguments)
    before = msgspec.json.decode(options.against.read_bytes(), type=list[Line]) if options.against else None
    started = time.monotonic()
    found = freeze(options.folders)
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_bytes(b"[\n" + b",\n".join(map(msgspec.json.encode, found)) + b"\n]\n")
    total = digest([(line.world, line.requirement, line.digest) for line in found])
    count = len({line.world for line in found})
    print(f"{OUT.name}: {total}, {len(found)} lines of {count} worlds in {time.monotonic() - started:.0f} s")
    if not SAMPLES.is_dir():
        print(f"without samples: no folder {SAMPLES.parent.name}/{SAMPLES.name} beside the project")
    if before is None:
        return 0
    different = list(differences(before, found))
    print("\n".join(different) or f"nothing differs from {options.against}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
