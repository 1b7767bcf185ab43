"""Every command helps: what it is for, what each argument means, and examples that its own parser takes."""

import argparse
import shlex
from collections.abc import Iterator

import pytest

from conformance.cli.arguments import Parser, narrow
from conformance.cli.commands import COMMANDS, command_parser
from conformance.cli.main import main
from fixtures.text.sentences import in_order


def parsers() -> Iterator[tuple[str, Parser]]:
    """Each command, and each command below it, by its words."""
    for name in COMMANDS:
        parser = command_parser(name)
        below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        yield name, parser
        for action in below:
            yield from ((f"{name} {word}", one) for word, one in action.choices.items() if isinstance(one, Parser))


PARSERS = dict(parsers())


def words_of(example: str) -> list[str]:
    """The words after ``gpu-conformance`` of an example, which may be in a shell's ``$(…)``."""
    words = shlex.split(example.removeprefix('eval "$(').removesuffix(')"'))
    assert words[0] == "gpu-conformance"
    return words[1:]


@pytest.mark.parametrize("name", PARSERS)
def test_a_command_has_two_examples_that_its_parser_takes(name: str) -> None:
    examples = PARSERS[name].examples
    assert len(set(examples)) >= 2
    for example in examples:
        words = words_of(example)
        assert " ".join(words).startswith(name)
        assert example in PARSERS[name].format_help()
        assert command_parser(words[0]).parse_args(words[1:])


@pytest.mark.parametrize("name", PARSERS)
def test_every_option_of_a_command_says_what_it_does(name: str) -> None:
    silent = [action.option_strings or action.dest for action in PARSERS[name]._actions if not action.help and action.nargs != "A..."]
    assert silent == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_0_and_shows_the_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main([name, "--help"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"usage: gpu-conformance {name}")
    assert all(example in shown for example in COMMANDS[name].examples)


def test_the_list_of_commands_names_each_with_its_purpose(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert [name for name, command in COMMANDS.items() if f"{name} " not in shown or command.about not in shown] == []


def test_an_area_is_explained_by_its_requirements(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "gang"]) == 0
    assert {"GANG-01", "GANG-11"} <= set(capsys.readouterr().out.split())
    assert main(["explain", "GANGS"]) == 4
    assert "did you mean GANG?" in capsys.readouterr().err


def test_names_are_sorted_as_people_do() -> None:
    names = ["l40s-2", "l40s-19", "l40s-189", "l40s-190", "node", "node-07a", "node-7b", "node-10"]
    assert in_order(reversed(names)) == names


def test_long_lines_go_on_below() -> None:
    text = "short\n  " + "word " * 80
    lines = narrow(text).split("\n")
    assert max(map(len, lines)) <= 120
    assert (lines[0], lines[2][:6]) == ("short", " " * 6)
