"""Sharing of devices: time-slicing and MPS."""
