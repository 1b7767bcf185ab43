"""Evidence of a run: the API objects and outputs that its verdicts rest on, without what could be a secret."""
