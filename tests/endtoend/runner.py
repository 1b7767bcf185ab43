"""A reader of a step's log that takes lines for commands as the runner of GitHub Actions does."""

import re
from collections.abc import Iterator

import msgspec

KNOWN = {"group", "endgroup", "error", "warning", "notice", "debug", "add-mask", "set-env", "add-path", "set-output", "stop-commands"}
_NEW = re.compile(r"\s*::(?P<head>.*?)::(?P<data>.*)", re.DOTALL)
_OLD = re.compile(r"##\[(?P<head>[^]]*)\](?P<data>.*)", re.DOTALL)


class Carried(msgspec.Struct, frozen=True):
    """A command that the runner carried out."""

    name: str
    title: str
    text: str


def carried_out(log: str) -> Iterator[Carried]:
    """Every command that the runner carries out, in order."""
    token = ""
    for line in log.splitlines():
        found = _command(line, token)
        if found is None:
            continue
        if token:
            token = "" if found.name == token else token
        elif found.name == "stop-commands":
            token = found.text
        else:
            yield found


def _command(line: str, token: str) -> Carried | None:
    for form, separator, replaced in ((_NEW.match(line), ",", ":,"), (_OLD.search(line), ";", ";]")):
        if form is None:
            continue
        name, _, properties = form["head"].partition(" ")
        if name.lower() in KNOWN or name == token:
            values = dict(one.partition("=")[::2] for one in properties.split(separator))
            return Carried(name, _decoded(values.get("title", ""), f"\r\n{replaced}"), _decoded(form["data"], "\r\n"))
    return None


def _decoded(text: str, characters: str) -> str:
    for character in characters:
        text = text.replace(f"%{ord(character):02X}", character)
    return text.replace("%25", "%")
