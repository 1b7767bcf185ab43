"""Undos by the kind of object that they restore."""
