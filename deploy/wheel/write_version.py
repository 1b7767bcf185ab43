"""Writes the version that the tag gives into the wheel, so that every report of an installed suite states it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WriteVersion(BuildHookInterface[Any]):
    """Puts a ``conformance/version.py`` of its own into a wheel; an editable install keeps that of the checkout."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before the build; ``version`` is ``standard`` or ``editable``."""
        if version == "editable":
            return
        checkout = Path(self.root, "conformance", "version.py").read_text(encoding="utf-8")
        head = checkout.partition("\nVERSION = ")[0]
        self._folder = tempfile.TemporaryDirectory()
        written = Path(self._folder.name, "version.py")
        written.write_text(f'{head}\nVERSION = "{self.metadata.version}"\n', encoding="utf-8")
        build_data["force_include"][str(written)] = "gpu_conformance/suite/conformance/version.py"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after the build."""
        if version != "editable":
            self._folder.cleanup()
