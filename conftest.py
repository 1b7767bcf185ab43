"""Registers the plugin; nothing else."""

from __future__ import annotations

pytest_plugins = ["conformance.plugin.hooks", "conformance.plugin.judging"]
