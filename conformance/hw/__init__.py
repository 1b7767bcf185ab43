"""HW: health of devices, as the driver of their node tells it."""
