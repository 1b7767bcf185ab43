"""Requests, limits and quantities of devices."""
