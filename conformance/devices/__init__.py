"""Devices of nodes: how many, of which product, offered through the device plugin or DRA, and how many are free."""
