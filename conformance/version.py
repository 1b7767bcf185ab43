"""Version of the suite, as every report states it."""

from __future__ import annotations

VERSION = "0.1.0"
