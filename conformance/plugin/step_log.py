"""The log of a GitHub Actions step: a group around the requirements, annotations, and nothing else that the runner takes for a command.

The runner reads commands from every line. So it is told to stop reading them, until a token that nobody can guess, and it reads on
only for the commands of the suite itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

from reports.terminal.actions import command


class StepLog:
    """Writes commands to the runner. ``write`` prints a line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._token = ""  # while the runner reads no commands: what lets it read on

    def close(self) -> None:
        """Make the runner take no line for a command from here on."""
        if not self._token:
            self._token = secrets.token_hex(16)
            self._write(command("stop-commands", self._token))

    def reopen(self) -> None:
        """Let the runner read commands again, for the next program of the step."""
        if self._token:
            self._write(command(self._token))
            self._token = ""

    def say(self, *commands: str) -> None:
        """Give the runner the suite's own commands."""
        self.reopen()
        for line in commands:
            self._write(line)
        self.close()
