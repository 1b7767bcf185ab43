"""Two runs compared: requirements, experiments, coverage."""
