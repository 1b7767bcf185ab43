"""Registers the plugin; nothing else."""

from __future__ import annotations

pytest_plugins = ["conformance.plugin.judging", "conformance.plugin.hooks", "chaos.plugin"]
