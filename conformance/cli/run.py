"""``gpu-conformance run [pytest options]``: the suite where there is no checkout (``uvx``, ``pipx``, the container image)."""

from collections.abc import Sequence

import pytest

from conformance.cli.arguments import Parser, PytestOptions
from conformance.cli.commands import command_parser
from conformance.plugin.options import OPTIONS, SUITE, add_options


def options(parser: Parser, _command: str) -> None:
    """Give the parser the suite's own options. All of pytest's work as well."""
    add_options(PytestOptions(parser))
    parser.add_argument("-k", metavar="EXPRESSION", help="pytest's selection; ids and areas work as names")
    parser.add_argument("-n", metavar="N", help="workers (pytest-xdist)")


def main(argv: Sequence[str]) -> int:
    """Run pytest on the installed suite with the arguments after ``run``; its exit code."""
    if {"-h", "--help"} & set(argv[1:]):
        command_parser("run").print_help()
        return 0
    return int(pytest.main([*OPTIONS, str(SUITE), *argv[1:]]))
