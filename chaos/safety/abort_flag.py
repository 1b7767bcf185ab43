"""The abort flag: a file that parent and child of an experiment share. Once set it stays set."""

from __future__ import annotations

import os
from pathlib import Path

from chaos.model.errors import Aborted

FILE = "abort"
"""Its name in the folder of an experiment."""


class AbortFlag:
    """Set by parent or child to stop the experiment; checked before every act and between sub-steps."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def set(self, reason: str) -> None:
        """Stop the experiment. The first reason is kept."""
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        draft.write_text(reason, encoding="utf-8")
        try:
            os.link(draft, self.path)  # fails where one is: no reason is overwritten, none is read half-written
        except FileExistsError:
            pass
        finally:
            draft.unlink()

    @property
    def reason(self) -> str:
        """Why it is set; empty while it is not."""
        try:
            return self.path.read_text(encoding="utf-8") or "aborted"
        except FileNotFoundError:
            return ""

    def check(self) -> None:
        """Raises :class:`Aborted` when it is set."""
        if reason := self.reason:
            raise Aborted(reason)
