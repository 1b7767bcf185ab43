"""The user interface of experiments: pytest options and plugin, commands."""
