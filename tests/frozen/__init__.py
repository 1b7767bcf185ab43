"""``make frozen``: what the suite says of every world that this repository has, so that a refactoring can be shown to change nothing."""
