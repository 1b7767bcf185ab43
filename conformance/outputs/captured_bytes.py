"""Captured bytes as text: UTF-8, or what PowerShell and editors on Windows write in its place."""

from __future__ import annotations

import codecs

from conformance.outputs.unreadable import MAX_CHARACTERS, Unreadable

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 4096


def decoded(data: bytes) -> str:
    """The text of a captured file, without a byte order mark.

    Raises:
        Unreadable: too large, or binary: NUL characters, or more than a few bytes that are no text in the encoding found.
    """
    if len(data) > MAX_CHARACTERS:
        raise Unreadable(f"more than {MAX_CHARACTERS} bytes")
    mark, encoding = next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), (b"", _unmarked(data)))
    text = data[len(mark) :].decode(encoding, errors="replace").removeprefix("\ufeff")
    if "\0" in text:
        raise Unreadable("binary data: the text holds NUL characters")
    if text.count("\ufffd") > 8 + len(text) // 100:
        raise Unreadable(f"binary data: not {encoding.upper()} text")
    return text


def _unmarked(data: bytes) -> str:
    """The encoding of bytes without a mark: every other byte of Latin text in UTF-16 is NUL."""
    sample = data[:_SAMPLE]
    even, odd = sample[::2], sample[1::2]
    for zeros, others, encoding in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 4 and zeros.count(0) > 0.7 * len(zeros) and others.count(0) == 0:
            return encoding
    return "utf-8"
