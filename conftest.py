"""Registers the plugin; nothing else is here but what must come before its modules are imported."""

from fixtures.system.process import collect_rarely

collect_rarely()  # hundreds of modules are imported next, and none of them becomes garbage

pytest_plugins = ["conformance.plugin.session", "conformance.plugin.hooks", "chaos.surface.plugin"]
