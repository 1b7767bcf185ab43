"""Hands the results of a run on: to a ConfigMap, a volume, an object store, node labels, and programs that collect them."""
