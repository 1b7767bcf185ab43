"""The argument parser of all commands: a mistake is reported in one line, with exit code 4."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from fixtures.text.sentences import plain


class Parser(argparse.ArgumentParser):
    """``argparse`` with the suite's exit code for usage errors."""

    def error(self, message: str) -> NoReturn:
        """Print one line and end with 4."""
        print(f"{self.prog}: {plain(message)}", file=sys.stderr)
        sys.exit(4)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The values of an option. An empty one is a mistake (``--kubeconfig "$UNSET"``), never the same as no option."""
        own = arg_strings[:1] if action.nargs == argparse.PARSER else arg_strings  # a command's further words are its own parser's
        if not all(text.strip() for text in own):
            raise argparse.ArgumentError(action, "an empty value was given: expected one, or leave it out")
        return super()._get_values(action, arg_strings)


def complain(program: str, message: object) -> int:
    """Print one line on stderr; the exit code for usage errors."""
    print(f"{program}: {plain(' '.join(str(message).split()))}", file=sys.stderr)
    return 4
