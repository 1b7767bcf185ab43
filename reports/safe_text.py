"""Makes text from a cluster safe to show in reports.

Names, labels and logs are hostile: they may carry terminal escapes, bidirectional overrides, markup,
megabytes, or credentials. Every writer passes what it shows through here first; each writer then
escapes for its own format. A container runtime quotes the command that it could not start, with its passwords.
"""

import re
from functools import lru_cache

NAME_LIMIT = 300
CELL_LIMIT = 1_000
TEXT_LIMIT = 4_000

# C0 (but newline and tab), DEL, C1, zero-width and bidirectional controls, line/paragraph separators,
# byte order mark, interlinear and tag characters, lone surrogates.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_XML_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_URL = re.compile(r"https?://[^\s<>\"'`\\^{}|]+")
_MARKDOWN = re.compile(r"[\\`*_~\[\]#|<>&@!$]|(?<=:)//|\bwww(?=\.)", re.IGNORECASE)
_TRAILING = ".,;:!?)]"

LONGEST = 8_192
"""Characters that a credential has at most."""

REMEMBERED = 8_192
"""Short texts whose cleaned form is kept, at most."""

_WORDS = (
    *("password", "passwd", "passphrase", "secret", "token", "credentials?", "authorization"),
    *("api[-_.]?key", "access[-_.]?key", "private[-_.]?key"),
)
WORDS = f"(?:{'|'.join(_WORDS)})"
"""What a credential is called."""

_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}+(\.(?:[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*|eyJ[A-Za-z0-9_-]*))?")
"""The end may be cut off. What only begins like a token is found too, without group 1: it has to be passed over at once."""
_PRIVATE_KEY = re.compile(r'-----BEGIN [A-Z ]*PRIVATE KEY-----[^"]*?(?:-----END [A-Z ]*PRIVATE KEY-----|(?=")|\Z)')
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{16,}")
_USERINFO = re.compile(r"(?<=://)[^/@\s\"]{1,256}(?=@)")
_SIGNED = re.compile(r"(?i)([?&](?:[a-z0-9_-]{0,60}signature|sig)=)[^\s&\"'\\]{1,4096}")
"""What signs an address, and lets whoever has it in."""
_ISSUED = re.compile(
    r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{20,}|nvapi-[A-Za-z0-9_-]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,}|xox[abprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{30,}|npm_[A-Za-z0-9]{30,})"
)
"""Tokens whose issuer gives them a beginning of their own."""
_NO_SECRET = r"(?!\[redacted|(?:true|false|none|null|[0-9]{1,4})(?![^\s,;\"'&\\]))"
_GIVEN = re.compile(
    rf"(?i)((?:(?<![^\s\"'])--?[a-z0-9_.-]{{0,60}}{WORDS}\s{{1,20}}|(?:{WORDS}|(?<![a-z])pass)=){_NO_SECRET})[^\s,;\"'&\\]{{1,4096}}"
)
"""``--token X``, ``--password=X`` and ``TOKEN=X``."""
_BEGINNINGS = ("pass", "secret", "token", "credential", "authorization", "api", "access", "private")
_NAMED = {start: re.compile(rf"(?:{'|'.join(word for word in (*_WORDS, 'pass') if word.startswith(start))})[=\s]") for start in _BEGINNINGS}
"""What each text with a credential that is given has in it, in small letters, by how that begins: most texts have none of these letters."""


def clip(text: str, limit: int, left_out: int = 0) -> str:
    """At most ``limit`` characters of ``text``; what was left out, here or before, is counted, never dropped in silence."""
    if len(text) <= limit and not left_out:
        return text
    return f"{text[:limit]}… ({max(len(text) - limit, 0) + left_out:,} more characters)"


def visible(text: str, limit: int = TEXT_LIMIT) -> str:
    """``text`` redacted and clipped, with every character that could move, hide or reorder text spelled out."""
    return _visible_again(text, limit) if len(text) <= CELL_LIMIT else _visible(text, limit)


def one_line(text: str, limit: int = CELL_LIMIT) -> str:
    """:func:`visible` text on one line, runs of white space folded."""
    return _one_line_again(text, limit) if len(text) <= CELL_LIMIT else _one_line(text, limit)


def _visible(text: str, limit: int) -> str:
    text = _kept(text, limit)
    return _UNSAFE.sub(_spell, text) if _UNSAFE.search(text) else text


def _one_line(text: str, limit: int) -> str:
    return _visible(" ".join(_kept(text, limit).split()), limit + 64)


_visible_again, _one_line_again = lru_cache(REMEMBERED)(_visible), lru_cache(REMEMBERED)(_one_line)
"""Nine formats write the same few thousand names and observations: of 85,000 texts in a report of 100 nodes, 2,500 differ."""


def _kept(text: str, limit: int) -> str:
    """``text`` redacted, and then clipped: a credential that is cut off is known by the text around it."""
    left_out = max(len(text) - limit - LONGEST, 0)
    return clip(redact(text[: limit + LONGEST]), limit, left_out)


def ascii_only(text: str) -> str:
    """``text`` in ASCII: the field's signs by their usual spelling, anything else as an escape."""
    if text.isascii():
        return text
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def xml_legal(text: str) -> str:
    """``text`` without the characters XML 1.0 cannot carry (section 2.2, Char)."""
    return _XML_ILLEGAL.sub("", text)


def markdown_plain(text: str) -> str:
    """``text`` in Markdown where it forms no link, no picture, no HTML and no formatting; its lines stay lines."""
    return _MARKDOWN.sub(lambda match: "".join(f"&#{ord(character)};" for character in match.group()), text)


def without_surrogates(text: str) -> str:
    """``text`` with lone surrogates spelled out, so that it can be written as UTF-8."""
    return _SURROGATE.sub(_spell, text)


def link_parts(text: str) -> list[tuple[str, str]]:
    """Split ``text`` to (words, target): target is the http(s) address or "" for plain words."""
    parts: list[tuple[str, str]] = []
    at = 0
    for match in _URL.finditer(text):
        url = match.group().rstrip(_TRAILING)
        if len(url) <= len("https://"):
            continue
        if match.start() > at:
            parts.append((text[at : match.start()], ""))
        parts.append((url, url))
        at = match.start() + len(url)
    if at < len(text):
        parts.append((text[at:], ""))
    return parts


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ASCII = str.maketrans(
    {
        "\u2265": ">=",
        "\u2264": "<=",
        "\u00b1": "+/-",
        "\u2260": "!=",
        "\u00d7": "x",
        "\u2192": "->",
        "\u2026": "...",
        "\u2013": "-",
        "\u2014": "-",
        "\u00b7": "-",
        "\u201c": '"',
        "\u201d": '"',
        "\u2018": "'",
        "\u2019": "'",
        "\u00a0": " ",
    }
)


def encodable(value: object) -> object:
    """Decoded JSON whose texts, keys included, can all be written as UTF-8."""
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [encodable(item) for item in value]
    return value


def redact(text: str) -> str:
    """Replace credentials: tokens, private keys, bearer values, passwords in URLs, and what is given to a name of one.

    JSON text stays JSON.
    """
    given, small = text, text.casefold()
    text = _JWT.sub(lambda found: "[redacted token]" if found[1] else found[0], text)
    text = _PRIVATE_KEY.sub("[redacted private key]", text)
    if "bearer" in small:
        text = _BEARER.sub(r"\1[redacted]", text)
    if "@" in text:
        text = _USERINFO.sub("[redacted]", text)
    text = _ISSUED.sub("[redacted token]", text)
    if "sig=" in small or "signature=" in small:
        text = _SIGNED.sub(r"\1[redacted]", text)
    if named := [pattern for start, pattern in _NAMED.items() if start in small]:
        text = _without_given(text, small if text == given else text.casefold(), named)
    return text


def _without_given(text: str, small: str, named: list[re.Pattern[str]]) -> str:
    """The text without credentials that are given to a name. Only what stands between quotes around a name is searched, as none is
    given across a quote: the pattern is slow, and a report in JSON is long. ``small`` is the text in small letters."""
    if len(small) != len(text):  # as "ß", which becomes "ss"
        return _GIVEN.sub(r"\1[redacted]", text)
    parts, done = [], 0
    for at in sorted(found.start() for pattern in named for found in pattern.finditer(small)):
        if at >= done:
            begin, end = text.rfind('"', 0, at) + 1, text.find('"', at)
            end = len(text) if end < 0 else end
            parts += [text[done:begin], _GIVEN.sub(r"\1[redacted]", text[begin:end])]
            done = end
    return "".join((*parts, text[done:]))
