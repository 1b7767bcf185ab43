"""GANG: all-or-nothing placement of multi-pod device jobs."""
