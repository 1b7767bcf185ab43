"""MIG: how devices are partitioned, and whether labels, capacity and configuration agree with that."""
