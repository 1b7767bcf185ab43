"""What every run reads, read once by the process that runs are forked from, while it imports this module."""

from __future__ import annotations

from conformance.catalogue import load_catalogue
from fixtures.simulator import interface as simulator

load_catalogue()
simulator.read_ahead()
