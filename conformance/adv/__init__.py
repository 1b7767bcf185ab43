"""ADV: nodes advertise the devices that they really have."""
