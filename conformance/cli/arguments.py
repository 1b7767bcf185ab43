"""A parser whose mistakes are one line and exit code 4, as everywhere in the suite."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """``argparse`` with the suite's exit code for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Print one line and end with 4."""
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(4)


def complain(program: str, message: object) -> int:
    """Print one line on stderr; the exit code for usage errors."""
    print(f"{program}: {' '.join(str(message).split())}", file=sys.stderr)
    return 4
