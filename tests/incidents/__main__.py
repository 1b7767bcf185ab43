"""``make incidents``: judge every incident and say how many are seen."""

import sys

from tests.incidents.incidents import incidents, unseen


def main() -> int:
    """Print a line for each incident that is not seen, then the count. Returns 1 if one is missed that should be seen."""
    every, missed, broken = incidents(), 0, 0
    for one in every:
        if reported := unseen(one):
            missed += 1
            broken += not one.later
            print(f"{one.id} {one.title}: {one.later or 'MISSED'}")
            for id_, words in reported.items():
                print(f"    {id_}: {words}")
    print(f"{len(every) - missed} of {len(every)}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
