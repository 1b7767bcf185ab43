"""What an experiment's folder proves: pure functions of the files in it."""
