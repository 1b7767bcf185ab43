"""The pytest plugin: pytest is the interface of the suite.

Options select target, policy and requirements; fixtures hand a requirement what it judges; the
record of the run becomes reports and an exit code. ``hooks`` has the order of things.
"""
