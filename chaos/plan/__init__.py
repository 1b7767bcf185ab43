"""From an experiment to a plan: what it touches on this cluster, chosen once."""
