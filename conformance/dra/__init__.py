"""DRA: what claims get their devices by: API, classes, pools, devices, taints, claims, compute domains."""
