"""Taint fencing: devices are for those who ask for them."""
