"""The argument parser of all commands: a mistake is reported in one line, with exit code 4."""

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import msgspec

from fixtures.text.sentences import plain


class Parser(argparse.ArgumentParser):
    """``argparse`` with the suite's exit code for usage errors. ``examples`` are command lines that its help ends with."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        self.examples = tuple(examples)
        if examples:
            shown = "examples:\n" + "\n".join(f"  {line}" for line in examples)
            more["epilog"] = "\n\n".join(part for part in (more.get("epilog"), shown) if part)
            more.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **more)

    def error(self, message: str) -> NoReturn:
        """Print one line and end with 4."""
        sys.exit(complain(self.prog, message))

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The values of an option. An empty one is a mistake (``--kubeconfig "$UNSET"``), never the same as no option."""
        own = arg_strings[:1] if action.nargs == argparse.PARSER else arg_strings  # a command's further words are its own parser's
        if not all(text.strip() for text in own):
            raise argparse.ArgumentError(action, "an empty value was given: expected one, or leave it out")
        return super()._get_values(action, arg_strings)


class PytestOptions:
    """Takes options as pytest's parser does, for the help and the completion of a command that runs pytest."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser

    def getgroup(self, name: str, description: str = "") -> "PytestOptions":
        """The same for every group: a help text needs one."""
        return self

    def addoption(self, *names: str, **attributes: Any) -> None:
        """Register one option."""
        self._parser.add_argument(*names, **attributes)


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """What reads the value of an option: a whole number between two bounds, which are allowed themselves."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most:,}")
        return int(text)

    return read


def tell(*lines: object) -> None:
    """Print lines that may hold what a cluster or a file says: each stays one line, and no terminal or CI system acts on it."""
    for line in lines:
        show(plain(str(line)))
    sys.stdout.flush()


def add_columns(parser: argparse.ArgumentParser, default: str = "that of the terminal, or COLUMNS; in a pipe, 100") -> None:
    """``--columns``, as a run has it."""
    parser.add_argument("--columns", metavar="N", type=whole_number(80, 9_999), help=f"width of the output; default: {default}")


def width(given: int | None, least: int = 80) -> int:
    """How wide a table may be: as ``--columns`` says, else as the terminal."""
    return given or max(shutil.get_terminal_size((100, 24)).columns, least)


def narrow(text: str, columns: int = 120) -> str:
    """A text for a terminal: longer lines go on below, further to the right."""
    found = []
    for line in text.split("\n"):
        margin = " " * (len(line) - len(line.lstrip()) + 4)
        found += (
            textwrap.wrap(line, columns, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
            if len(line) > columns
            else [line]
        )
    return "\n".join(found)


def show(text: object, *, end: str = "\n") -> None:
    """Print a text whose lines were made for a terminal: no CI system takes one for a command."""
    from reports.terminal.actions import harmless  # imported late: most commands have little to show

    print(harmless(str(text)), end=end)


def show_json(value: object) -> None:
    """Print what msgspec can encode as indented ASCII JSON. No CI system takes a line for a command, and every reader gets the same."""
    print(json.dumps(msgspec.to_builtins(value), indent=2).replace("##", "#\\u0023"))


def complain(program: str, message: object) -> int:
    """Print one line on stderr, which no CI system takes for a command; the exit code for usage errors."""
    from reports.terminal.actions import harmless

    print(harmless(f"{program}: {plain(' '.join(str(message).split()))}"), file=sys.stderr)
    return 4
