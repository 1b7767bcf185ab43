"""The detection matrix: the proof that every requirement can fail."""
