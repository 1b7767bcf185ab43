"""The experiments that the suite ships, read once by each process that tests them."""

from chaos.catalogue import load_all

EXPERIMENTS = {experiment.id: experiment for experiment in load_all()}
