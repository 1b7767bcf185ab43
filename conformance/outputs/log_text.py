"""Lines of container logs without what launchers and terminals put around them (docs/facts/nccl.md#nccl-log-lines)."""

from __future__ import annotations

import re

from conformance.outputs.log_wrappers import unwrapped
from conformance.outputs.unreadable import cut_lines, readable_text

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_PREFIXES = re.compile(
    r"(?:"
    r"\[\d{1,6},\d{1,6}\](?:<std(?:out|err)>)?:"  # mpirun --tag-output
    r"|\[\d{1,6},\d{1,6}\]<std(?:out|err)>:?"
    r"|\[pod/[^\]\s]{1,300}\]\s"  # kubectl logs --prefix
    r"|\([A-Za-z_][\w.]{0,63} pid=\d{1,9}(?:, ip=[0-9a-fA-F.:]{1,45})?\)\s"  # Ray
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[0-9.]{0,10}(?:Z|[+-]\d\d:\d\d)\s"  # kubectl logs --timestamps
    r"|\d{1,6}:\s"  # srun --label
    r"|\[(?:default|rank)?\d{1,6}\]:\s?"  # torchrun --tee
    r"|[a-z0-9][a-z0-9.-]{0,62}\s{1,24}\|\s"  # docker compose
    r"|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d [\w.-]{1,253} [\w./-]{1,64}(?:\[\d{1,9}\])?:\s"  # journalctl, syslog
    r")"
)


def strip_launcher(line: str) -> str:
    """``line`` without ANSI escapes and without up to three launcher prefixes; the rest, leading blanks included, is untouched."""
    line = _ANSI.sub("", line)
    for _ in range(3):
        match = _PREFIXES.match(line.lstrip(" ") if line.startswith(" ") and line.lstrip(" ")[:1] in "[(" else line)
        if match is None:
            break
        line = line.lstrip(" ")[match.end() :] if line.startswith(" ") else line[match.end() :]
    return line


def log_lines(text: str) -> list[str]:
    """Lines of a captured log without wrappers and launcher prefixes. Raises ``Unreadable`` on empty, binary or oversized text."""
    return [strip_launcher(line) for line in cut_lines(unwrapped(readable_text(text)))]
