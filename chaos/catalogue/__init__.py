"""The experiment files: read strictly, listed, selected."""
