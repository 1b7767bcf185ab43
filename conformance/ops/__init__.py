"""Operator and agents: what keeps devices advertised, configured and watched."""
