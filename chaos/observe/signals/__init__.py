"""Signals by name: functions of a sample's reading that give one JSON value, or raise ``NoData``."""
