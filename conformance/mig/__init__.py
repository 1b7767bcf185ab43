"""Multi-Instance GPU: how devices are cut, and who is told."""
