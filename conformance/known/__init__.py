"""What is known of one node or device, for ``show`` and the inventory of a report."""
