"""Observation of the cluster: components, devices, and signals that are sampled while an experiment runs."""
