"""Reads what every run and every simulator reads from the project's own files. Importing this module does it.

For the process that a worker's runs and simulators are forked from: then hundreds of them read and parse nothing of it.
"""

from datetime import UTC, datetime

from conformance.catalogue import load_catalogue
from fixtures.policy.platforms import presets
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import load_scenario
from fixtures.simulator.simulated_cluster import seeded

load_catalogue()
presets()
for scenario in ("resilience", "dra", "kueue-inference"):  # between them they have nearly every manifest
    seeded(build(load_scenario(scenario), now=datetime.now(UTC)))
