"""The engine: one experiment at a time, in a child process that the parent outlives.

Modules: ``campaign`` (all experiments of a run), ``runner`` (one of them), ``handover`` and ``child`` (the process that acts),
``activity_wrapper`` (what every activity is wrapped in), ``supervision`` (ending the child), ``conformance_check`` (conformance before
and after), ``recover`` (putting back what earlier runs have left).
"""
