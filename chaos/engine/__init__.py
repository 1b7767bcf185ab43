"""The engine: one experiment at a time, in a child process that the parent outlives.

Modules: ``campaign`` (all experiments of a run), ``runner`` (one of them), ``child`` (the process that acts), ``processes`` (what a
child is given, how it is ended, conformance before and after), ``recover`` (putting back what earlier runs have left). What every
activity is wrapped in stands in ``chaos.act.context``.
"""
