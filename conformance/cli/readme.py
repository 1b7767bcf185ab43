"""The generated parts of README.md: the command that saves a snapshot, the options of a run, the commands of the console script."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from conformance.catalogue import Catalogue
from conformance.cli.arguments import Parser, PytestOptions
from conformance.cli.commands import COMMANDS
from conformance.cli.snapshot_command import snapshot_command
from conformance.plugin.options import add_options

_MARKS = {
    "command": ("<!-- the command below is generated: make docs -->", "<!-- end of the generated command -->"),
    "options": ("<!-- the options below are generated: make docs -->", "<!-- end of the generated options -->"),
    "commands": ("<!-- the commands below are generated: make docs -->", "<!-- end of the generated commands -->"),
}
"""Where each part begins and ends."""


def with_generated_parts(text: str, catalogue: Catalogue) -> str:
    """A README with these parts as they should be. A part whose marks it does not have is left out."""
    parts = {
        "command": f"```sh\n{snapshot_command(catalogue)}\n```",
        "options": "\n".join(("| option | meaning |", "|---|---|", *_option_rows())),
        "commands": "\n".join(("| command | what it is for |", "|---|---|", *_command_rows())),
    }
    for name, (begin, end) in _MARKS.items():
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            blank = "" if name == "command" else "\n"  # a table needs a line of its own before it
            text = f"{before}{begin}\n{blank}{parts[name]}\n{blank}{end}{after}"
    return text


def _option_rows() -> Iterator[str]:
    parser = Parser(add_help=False)
    add_options(PytestOptions(parser))
    for action in parser._actions:
        yield f"| `{_cell(_shown(action))}` | {_cell(action.help or '')} |"


def _shown(action: argparse.Action) -> str:
    """An option with the name of its value."""
    values = str(action.metavar or "|".join(map(str, action.choices or ())))
    if action.nargs == "?":
        return f"{action.option_strings[0]}[={values}]"
    return f"{action.option_strings[0]} {values}".rstrip()


def _command_rows() -> Iterator[str]:
    for name, command in COMMANDS.items():
        yield f"| `gpu-conformance {name}` | {_cell(command.about)} |"


def _cell(text: str) -> str:
    return " ".join(text.replace("%%", "%").split()).replace("|", "\\|").replace("<", "&lt;")
