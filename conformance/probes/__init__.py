"""Probe pods: on which nodes they run, how they are started and watched, and what they saw."""
