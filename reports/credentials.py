"""Takes credentials out of text.

A cluster's messages repeat what somebody typed: a container runtime quotes the command that it could not start, with its passwords.
"""

from __future__ import annotations

import re

LONGEST = 8_192
"""Characters that a credential has at most."""

WORDS = r"(?:password|passwd|passphrase|secret|token|api[-_.]?key|access[-_.]?key|credentials?|private[-_.]?key|authorization)"
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
_STARTS = ("gh", "glpat-", "hf_", "nvapi-", "sk-", "xox", "AKIA", "ASIA", "AIza", "npm_")
_NO_SECRET = r"(?!\[redacted|(?:true|false|none|null|[0-9]{1,4})(?![^\s,;\"'&\\]))"
_GIVEN = re.compile(
    rf"(?i)((?:(?<![^\s\"'])--?[a-z0-9_.-]{{0,60}}{WORDS}\s{{1,20}}|(?:{WORDS}|(?<![a-z])pass)=){_NO_SECRET})[^\s,;\"'&\\]{{1,4096}}"
)
"""``--token X``, ``--password=X`` and ``TOKEN=X``."""
_NAMED = re.compile(rf"(?:{WORDS}|pass)[=\s]")
"""What each text with a credential that is given has in it, once it is all small letters: looked for ten times as fast as that."""


def redact(text: str) -> str:
    """Replace credentials: tokens, private keys, bearer values, passwords in URLs, and what is given to a name of one.

    JSON text stays JSON.
    """
    if "eyJ" in text:
        text = _JWT.sub(lambda found: "[redacted token]" if found[1] else found[0], text)
    if "PRIVATE KEY-----" in text:
        text = _PRIVATE_KEY.sub("[redacted private key]", text)
    if "earer " in text or "EARER " in text:
        text = _BEARER.sub(r"\1[redacted]", text)
    if "://" in text and "@" in text:
        text = _USERINFO.sub("[redacted]", text)
    if any(start in text for start in _STARTS):
        text = _ISSUED.sub("[redacted token]", text)
    if "ignature=" in text or "sig=" in text:
        text = _SIGNED.sub(r"\1[redacted]", text)
    if _NAMED.search(text.casefold()):
        text = _GIVEN.sub(r"\1[redacted]", text)
    return text
