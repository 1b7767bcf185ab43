"""``make frozen``: the verdicts of every world in this repository, so that a refactoring can be shown to change nothing."""
