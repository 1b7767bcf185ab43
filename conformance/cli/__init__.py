"""The console script and its subcommands."""
