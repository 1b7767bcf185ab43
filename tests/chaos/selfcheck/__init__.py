"""Proof that the experiments can fail, that they do not fail without a fault, and that a killed run can always be undone."""
