"""ISO: isolation of devices between containers, pods and those that asked for none."""
