"""Faults, what keeps them bounded, their undoing, and the verdict on what the cluster made of them."""
