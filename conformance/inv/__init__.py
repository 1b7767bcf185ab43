"""Inventory and scope of the run: which nodes are judged, and with which rights."""
