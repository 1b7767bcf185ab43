"""Registers the plugin; nothing else."""

from __future__ import annotations

pytest_plugins = ["conformance.plugin.session", "conformance.plugin.hooks", "chaos.surface.plugin"]
