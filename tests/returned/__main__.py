"""``make return``: judge sixty nodes that came back from a repair, and say which may take work. Arguments name some of them."""

import logging
import sys
import tempfile
from pathlib import Path

from tests.returned.nodes import outcomes, rows


def main() -> int:
    """Print a line for each node, then the counts. Returns 1 if a good node is held back, or more than one wrong node is not."""
    asked, held = frozenset(sys.argv[1:]), {}
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # a run that ends leaves its watches
    with tempfile.TemporaryDirectory() as folder:
        for which in ("wrong", "good"):
            found = outcomes(which, Path(folder), [name for name in rows()[which] if not asked or name in asked])
            for name, outcome in found.items():
                row = rows()[which][name]
                dcgm = f"; dcgmi diag: {row.dcgm or 'no documented test'}" if which == "wrong" else ""
                print(f"{which} {name}: {'held back by ' + ', '.join(outcome.reasons) if outcome.reasons else 'may take work'}{dcgm}")
                for id_, words in outcome.reasons.items() if asked or which == "good" else ():
                    print(f"    {id_}: {words}")
            held[which] = (sum(bool(one.reasons) for one in found.values()), len(found))
    by_diag = sum(bool(row.dcgm) for row in rows()["wrong"].values())
    print(f"held back {held['wrong'][0]} of {held['wrong'][1]} wrong nodes, of which dcgmi diag has a documented test for {by_diag}")
    print(f"wrongly held back {held['good'][0]} of {held['good'][1]} good nodes")
    return 0 if held["wrong"][0] >= held["wrong"][1] - 1 and not held["good"][0] else 1


if __name__ == "__main__":
    sys.exit(main())
