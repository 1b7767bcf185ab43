"""The one exception of the readers of captured text, and the limits that keep hostile text harmless."""

from __future__ import annotations

MAX_CHARACTERS = 32 * 1024 * 1024
MAX_LINE_CHARACTERS = 16 * 1024


class Unreadable(Exception):
    """The text is not what the reader reads (empty, binary, another format, too large). The message is one line."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class EmptyList(Unreadable):
    """A list of Kubernetes objects without any."""


def readable_text(text: str) -> str:
    """``text`` without a byte order mark and with ``\\n`` line ends.

    Raises:
        Unreadable: the text is empty, holds NUL characters (a binary file) or is longer than ``MAX_CHARACTERS``.
    """
    if "\0" in text:
        raise Unreadable("binary data: the text holds NUL characters")
    if len(text) > MAX_CHARACTERS:
        raise Unreadable(f"text of {len(text)} characters is longer than {MAX_CHARACTERS}")
    if not text.strip():
        raise Unreadable("the text is empty")
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def lines_of(text: str) -> list[str]:
    """Lines of ``text`` cut at ``MAX_LINE_CHARACTERS``, so that no pattern sees an unbounded line. Raises as ``readable_text`` does."""
    return cut_lines(readable_text(text))


def cut_lines(text: str) -> list[str]:
    """Lines of a text that is readable, each cut at ``MAX_LINE_CHARACTERS``."""
    return [line[:MAX_LINE_CHARACTERS] for line in text.split("\n")]
