"""OBS: metrics and events of devices."""
