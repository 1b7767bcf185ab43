"""``gpu-conformance docs FOLDER`` and ``completion SHELL``: generated, so that it cannot disagree with catalogue, policy and parsers.

Parts of README.md are generated too; shtab writes the completion of all commands.
"""

import argparse
import ast
import importlib
import inspect
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec.inspect import (
    BoolType,
    DictType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    NoneType,
    StrType,
    Type,
    UnionType,
    VarTupleType,
)

from conformance.catalogue import Catalogue, load_catalogue
from conformance.causes import met
from conformance.cli.arguments import Parser, PytestOptions, complain, show
from conformance.cli.commands import COMMANDS, command_parser, module_of
from conformance.cli.explain import snapshot_command
from conformance.plugin.options import add_options
from fixtures.policy import model
from fixtures.policy.platforms import Preset, presets
from fixtures.policy.policy_file import policy_schema
from fixtures.simulator import interface as simulator
from fixtures.simulator.interface import defect_names, load_defect

_WHY_MARKS = "docs/decisions/presets-by-marks.md"
_PLAIN: dict[type[Type], str] = {
    StrType: "text",
    IntType: "whole number",
    FloatType: "number",
    BoolType: "true or false",
    NoneType: "null",
}
_SHOWN = 72  # characters of a default in the table; longer ones follow it

_MARKS = {
    "command": ("<!-- the command below is generated: make docs -->", "<!-- end of the generated command -->"),
    "options": ("<!-- the options below are generated: make docs -->", "<!-- end of the generated options -->"),
    "commands": ("<!-- the commands below are generated: make docs -->", "<!-- end of the generated commands -->"),
}
"""Where each part begins and ends."""

_PROGRAM = "gpu-conformance"
SHELLS = ("bash", "zsh", "fish")
_FILES = ("FILE", "PATH", "REPORT", "BEFORE", "AFTER")
_FOLDERS = ("DIR", "FOLDER")
"""What options call their values when these are files and folders."""


def pages() -> dict[str, str]:
    """Every generated page by file name."""
    return {
        "requirements.md": page(load_catalogue()),
        "policy.md": policy_page(),
        "policy.schema.json": json.dumps(policy_schema(), indent=2) + "\n",
    }


def page(catalogue: Catalogue) -> str:
    """Markdown of all requirements, with the defects that prove they can fail."""
    tripping: dict[str, list[str]] = {}
    for name in defect_names():
        for id_ in load_defect(name).trips:
            tripping.setdefault(id_, []).append(name)
    lines = ["# Requirements", "", "Generated from the catalogue by `make docs`; do not edit.", ""]
    for area in catalogue.areas:
        lines += [f"## {area.area}: {area.title}", ""]
        for requirement in area.requirements:
            lines += [
                f"### {requirement.id} {requirement.title}",
                "",
                f"{requirement.level}, access `{requirement.access}`. Proven able to fail by: "
                + (", ".join(f"`{name}`" for name in tripping.get(requirement.id, [])) or "nothing yet")
                + ".",
                "",
                " ".join(requirement.rationale.split()),
                "",
                *[f"- **{cause.title}.** {cause.text}" for cause in met(requirement.causes)],
                *([""] if requirement.causes else []),
                "References: " + "; ".join(requirement.references),
                "",
            ]
    return "\n".join(lines)


def policy_page() -> str:
    """Markdown of the policy: every section and key with its type, default and meaning, read from ``fixtures/policy/model.py``."""
    texts = _docstrings(inspect.getsource(model))
    lines = [
        "# Policy",
        "",
        "Generated from `fixtures/policy/model.py` by `make docs`; do not edit.",
        "",
        "A policy file says what you expect of the cluster: `pytest conformance --kubeconfig FILE --policy policy.yaml`. It is YAML",
        "with one mapping per section. A key that it leaves out has the default below. A list replaces the whole default list, or",
        'extends it where each of its entries begins with `+`: `moreInfrastructure: ["+cw-*"]`. An unknown key, a key that stands',
        "twice, or a value of the wrong type ends the run with exit code 4 before it contacts the cluster. Globs are shell patterns",
        "(`nvidia.com/mig-*`). Durations are in seconds unless the key says otherwise.",
        "",
        "[Presets](#presets) lie between the defaults and the file.",
        "",
        "[policy-example.yaml](policy-example.yaml) is a policy for a cluster of H100 nodes with InfiniBand;",
        "[policy.schema.json](policy.schema.json) is the JSON Schema for editors.",
        "",
    ]
    top: list[msgspec.structs.FieldInfo] = []
    for field in msgspec.structs.fields(model.Policy):
        if isinstance(field.type, type) and issubclass(field.type, model.Section):
            name = field.type.__name__
            lines += [f"## {field.encode_name}", "", _prose(texts[name, ""]), ""]
            lines += _table(msgspec.structs.fields(field.type), {key: text for (owner, key), text in texts.items() if owner == name})
        else:
            top.append(field)
    lines += ["## Beside the sections", "", "Keys outside the sections.", ""]
    lines += _table(top, {key: text for (owner, key), text in texts.items() if owner == model.Policy.__name__})
    lines += ["## Presets", ""]
    lines += ["A preset adds what is usual on a platform to the defaults; what the file says wins. The cluster's own marks choose presets,"]
    lines += ["and several may apply. `--platform NAME[,NAME]` or `platform:` names them instead, `none` leaves them out. The run's first"]
    lines += ["lines, `report.json` (`run.presets`) and the HTML report say which were applied and which mark chose each."]
    lines += [
        f"[Why marks choose]({_WHY_MARKS.removeprefix('docs/')}).",
        "",
        "| preset | for | chosen by any of | adds |",
        "|---|---|---|---|",
    ]
    lines += [_preset_row(preset) for preset in presets().values()]
    return "\n".join([*lines, ""])


def _preset_row(preset: Preset) -> str:
    marks = [f"{name} `{glob}`" for name, globs in msgspec.to_builtins(preset.marks).items() for glob in globs]
    adds = [f"`{section}.{key}`: `{json.dumps(value)}`" for section, keys in preset.policy.items() for key, value in keys.items()]
    return f"| `{preset.name}` | {preset.title} | {', '.join(marks)} | {'; '.join(adds) or 'nothing: the defaults fit'} |"


def _table(fields: Sequence[msgspec.structs.FieldInfo], texts: dict[str, str]) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    long: list[tuple[str, Sequence[str]]] = []
    for field in fields:
        value = msgspec.to_builtins(field.default if field.default is not msgspec.NODEFAULT else field.default_factory())
        shown = f"`{json.dumps(value)}`"
        if isinstance(value, list | tuple) and len(shown) > _SHOWN:
            long.append((field.encode_name, value))
            shown = f"{len(value)} entries, below"
        kind = _words(msgspec.inspect.type_info(field.type))
        yield f"| `{field.encode_name}` | {kind} | {shown} | {_prose(texts.get(field.name, ''))} |"
    yield ""
    for name, entries in long:
        yield f"Default of `{name}`: " + ", ".join(f"`{entry}`" for entry in entries) + "."
        yield ""


def _words(kind: Type) -> str:
    """The words for a type: ``list of text``, ``number or null``."""
    if isinstance(kind, ListType | VarTupleType):
        return f"list of {_words(kind.item_type)}"
    if isinstance(kind, DictType):
        return f"mapping of text to {_words(kind.value_type)}"
    if isinstance(kind, LiteralType):
        return " or ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, UnionType):
        return " or ".join(sorted((_words(item) for item in kind.types), key=lambda words: words == "null"))
    return _PLAIN[type(kind)]


def _prose(text: str) -> str:
    """A docstring as one Markdown line that is safe in a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").replace("None", "null").split())


def _docstrings(source: str) -> dict[tuple[str, str], str]:
    """``{(class, field): text}`` of a module: the string literal after a field; the class's own docstring has the field ``""``."""
    found: dict[tuple[str, str], str] = {}
    for item in ast.parse(source).body:
        if not isinstance(item, ast.ClassDef):
            continue
        found[item.name, ""] = ast.get_docstring(item) or ""
        for before, after in zip(item.body, item.body[1:], strict=False):
            if (
                isinstance(before, ast.AnnAssign)
                and isinstance(before.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[item.name, before.target.id] = after.value.value
    return found


def options(parser: Parser, command: str) -> None:
    """Give the parser the arguments of ``docs`` or of ``completion``."""
    if command == "completion":
        parser.add_argument("shell", choices=SHELLS, help="the shell that reads the script")
        return
    parser.add_argument("folder", type=Path, metavar="DIR", help="where the pages go; made if absent")


def main(argv: Sequence[str]) -> int:
    """Write the pages into a folder, and the generated parts of a README beside it. Exit 4 where they cannot be written.

    ``completion`` prints a script.
    """
    parser = command_parser(argv[0])
    if argv[0] == "completion":
        show(script(parser.parse_args(argv[1:]).shell), end="")
        return 0
    folder: Path = parser.parse_args(argv[1:]).folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages().items():
            (folder / name).write_text(text, encoding="utf-8")
        readme = folder.absolute().parent / "README.md"
        if readme.is_file():
            readme.write_text(with_generated_parts(readme.read_text(encoding="utf-8"), load_catalogue()), encoding="utf-8")
    except OSError as error:
        return complain(parser.prog, f"{error.filename or folder}: {error.strerror or error}")
    return 0


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
    root = Parser(prog=_PROGRAM)
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
