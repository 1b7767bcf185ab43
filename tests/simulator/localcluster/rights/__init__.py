"""Proof that the shipped roles hold what the suite needs and nothing that goes unnoticed when it is missing."""
