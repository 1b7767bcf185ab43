"""The text of ``nvidia-smi -q`` as values by path (``remapped_rows/pending``), GPU by GPU.

Sections are told by their indent. A line of another program between them must not hide what follows it: what stands at the margin is
skipped, and a value under a heading that nobody knows counts for the known section above it too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fixtures.nodeprobe.smi_xml import normal

_GPU_HEADER = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*\Z")
_KEY_VALUE = re.compile(r"( {0,64})(\S(?:[^:]|:(?! )){0,96}?) {0,64}:(?: |\Z)(.{0,256})\Z")
_BEGINNINGS = frozenset({"Fabric", "ECC Errors", "Remapped Rows", "Retired Pages", "Clocks Event Reasons", "Clocks Throttle Reasons"})
_SECTIONS = frozenset(
    {"fabric", "health", "ecc_errors", "volatile", "aggregate", "remapped_rows", "retired_pages"}
    | {"clocks_event_reasons", "clocks_throttle_reasons", "mig_mode"}
)
_VALUES = re.compile(
    r"pending\w*|remapping_failure_occurred|\w*uncorrectable\w*|sram_threshold_exceeded|single_bit_ecc|double_bit_ecc|state|status|summary"
    r"|bandwidth|route_\w+|access_timeout_recovery|incorrect_configuration|hw_\w*slowdown"
)
EXCERPT = "excerpt"
"""How a GPU is called whose line is not in the text."""
_MARGIN = 4  # the indent of what belongs to a GPU


class Sections:
    """One text, line by line. ``gpus`` are PCI bus id and values of each; ``header`` is what stands before them."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.header: dict[str, str] = {}
        self.gpus: list[tuple[str, dict[str, str]]] = []
        self._stack: list[tuple[int, str]] = []
        self._named = False
        self._begun: set[str] = set()
        self._known = ""
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if gpu := _GPU_HEADER.match(line):
            self.gpus.append((gpu[1], {}))
            self._named, self._stack, self._known = True, [], ""
            return
        beginning = line.strip() in _BEGINNINGS
        if beginning and not self._named:
            self._begin_excerpt(line.strip())
        match = _KEY_VALUE.match(line)
        indent = len(line) - len(line.lstrip(" "))
        key = normal(match[2] if match else line)
        margin = _MARGIN if self._named else 0 if beginning else 1
        if not key or (self.gpus and indent < margin):
            return
        while self._stack and self._stack[-1][0] >= indent:
            self._stack.pop()
        path = "/".join([*(name for _, name in self._stack[-6:]), key])
        if match is None and key in _SECTIONS:
            above = self._stack[-1][1] if self._stack else ""
            self._known = f"{self._known}/{key}" if self._known and above and above not in _SECTIONS else path
        elif match is not None:
            self._value(path, key, match[3].strip())
        self._stack.append((indent, key))

    def _begin_excerpt(self, section: str) -> None:
        """The text begins within a GPU: a section that comes again is the next GPU's."""
        if not self.gpus or section in self._begun:
            self.gpus.append((f"{EXCERPT} {len(self.gpus) + 1}", {}))
            self._begun = set()
        self._begun.add(section)
        self._stack = []

    def _value(self, path: str, key: str, value: str) -> None:
        if not self.gpus:
            self.header.setdefault(path, value)
            return
        values = self.gpus[-1][1]
        values.setdefault(path, value)
        parent = self._stack[-1][1] if self._stack else ""
        if not parent:
            self._known = ""
        elif self._known and (parent not in _SECTIONS or self._known.endswith(f"/{parent}")) and _VALUES.fullmatch(key):
            values.setdefault(f"{self._known}/{key}", value)
