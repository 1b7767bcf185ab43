"""The commands of ``gpu-conformance``: where each lives, what it is for, and two examples of it.

A command's module has ``options(parser, command)``, which gives a parser its arguments, and ``main(argv)``, whose first word is the
command's name. So help, completion and the command itself rest on one parser.
"""

import importlib
from pathlib import Path
from types import ModuleType

import msgspec

from conformance.cli.arguments import Parser
from fixtures.text import yaml_text


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One command. ``about`` is its line in the list of commands, ``details`` what its own help says besides."""

    module: str
    about: str
    examples: tuple[str, str]
    details: str = ""


COMMANDS = yaml_text.packaged(Path(__file__).with_name("commands.yaml"), dict[str, Command])


def module_of(name: str) -> ModuleType:
    """The module of a command; it is imported only when its command is used."""
    return importlib.import_module(COMMANDS[name].module)


def command_parser(name: str) -> Parser:
    """The parser of what follows a command's name."""
    command = COMMANDS[name]
    parser = Parser(
        prog=f"gpu-conformance {name}",
        description=f"{command.about[0].upper()}{command.about[1:]}.",
        epilog=command.details or None,
        examples=command.examples,
    )
    module_of(name).options(parser, name)
    return parser
