"""The engine: one experiment at a time, in a child process that the parent outlives.

Modules: ``campaign`` (all experiments of a run), ``runner`` (one of them), ``child`` (the process that acts), ``activity_wrapper`` (what
every activity is wrapped in), ``processes`` (what a child is given, how it is ended, conformance before and after), ``recover`` (putting
back what earlier runs have left).
"""
