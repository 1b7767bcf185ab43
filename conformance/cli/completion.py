"""``gpu-conformance completion SHELL``: the completion script of all commands, from their parsers (shtab)."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Iterator, Sequence

from conformance.catalogue import load_catalogue
from conformance.cli.arguments import Parser, show
from conformance.cli.commands import COMMANDS, command_parser, module_of
from fixtures.simulator import interface as simulator

PROGRAM = "gpu-conformance"
SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "PATH", "REPORT", "BEFORE", "AFTER")
_FOLDERS = ("DIR", "FOLDER")
"""What options call their values when these are files and folders."""


def options(parser: Parser, _command: str) -> None:
    """Give the parser its arguments."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")


def main(argv: Sequence[str]) -> int:
    """Print the script."""
    arguments = command_parser("completion").parse_args(argv[1:])
    show(script(arguments.shell), end="")
    return 0


def script(shell: str) -> str:
    """The completion of every command, option and fixed value, and of files where a value is one."""
    shtab = importlib.import_module("shtab")  # has no types of its own
    root = whole_parser()
    for action in _actions(root):
        if _metavar(action) in _FILES:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif _metavar(action) in _FOLDERS:
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return str(shtab.complete(root, shell=shell))


def whole_parser() -> Parser:
    """One parser with all commands, and the values that they take where these are known."""
    root = Parser(prog=PROGRAM)
    commands = root.add_subparsers(parser_class=Parser)
    for name, command in COMMANDS.items():
        parser = commands.add_parser(name, help=command.about, description=command.about)
        module_of(name).options(parser, name)
    scenarios, requirements = simulator.scenario_names(), list(load_catalogue().by_id)
    for action in _actions(root):
        if action.dest in ("simulate", "scenario"):
            action.choices = scenarios
        elif action.metavar == "ID" and action.dest != "run":
            action.choices = requirements
    return root


def _metavar(action: argparse.Action) -> str:
    return str(action.metavar or "").partition("[")[0]


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Every argument of a parser and of the commands below it."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            below: Iterable[argparse.ArgumentParser] = dict.fromkeys(action.choices.values())
            for one in below:
                yield from _actions(one)
