"""Readers of two short logs that decide by one line: the CUDA vectorAdd sample and the MIG manager."""

from __future__ import annotations

import re

import msgspec

from conformance.outputs.log_text import log_lines
from conformance.outputs.unreadable import Unreadable

_STATE = re.compile(r"mig\.config\.state' node label to '(\w{1,32})'")
_ASSERTING = re.compile(r"Updating MIG config: map\[([^\]]{0,256})\]")
_CUDA_CALL = re.compile(r"Failed to [a-z].{1,120}\(error code .{1,120}\)!")
_MIG_MANAGER = re.compile(r"MIG (?:config|mode|device|configuration|manager)|mig\.config|mig-parted")


class VectorAdd(msgspec.Struct, frozen=True):
    """``passed`` is ``None`` when the log ends before the sample's own verdict."""

    passed: bool | None
    error: str


class MigManagerLog(msgspec.Struct, frozen=True):
    """``state`` is the last value that the manager gave the label ``nvidia.com/mig.config.state``; ``""`` when it gave none."""

    state: str
    updates: tuple[str, ...]
    errors: tuple[str, ...]


def parse_vector_add(text: str) -> VectorAdd:
    """Read a vectorAdd log. Raises ``Unreadable`` when no line of the sample is in it."""
    passed: bool | None = None
    error = ""
    seen = False
    for line in log_lines(text):
        seen = seen or "[Vector addition of " in line or "CUDA kernel launch with" in line or bool(_CUDA_CALL.search(line))
        if line.strip() == "Test PASSED":
            passed = True if passed is None else passed
        elif (seen and "Failed to " in line) or "Result verification failed" in line or line.strip() == "Test FAILED":
            passed, error = False, line.strip()[:300]
    if not seen and passed is None:
        raise Unreadable("no line of the vectorAdd sample found")
    return VectorAdd(passed, error)


def parse_mig_manager(text: str) -> MigManagerLog:
    """Read a MIG manager log. Raises ``Unreadable`` when no line of it is in the text."""
    state, seen = "", False
    updates: list[str] = []
    errors: list[str] = []
    for line in log_lines(text):
        seen = seen or bool(_MIG_MANAGER.search(line))
        if match := _STATE.search(line):
            state = match[1]
        if match := _ASSERTING.search(line):
            updates.append(match[1])
        if "level=error" in line or "level=fatal" in line:
            errors.append(line.strip()[:300])
    if not seen:
        raise Unreadable("no line of the MIG manager found")
    return MigManagerLog(state, tuple(updates), tuple(errors))
