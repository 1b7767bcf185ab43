"""The summary of a run on a terminal."""
