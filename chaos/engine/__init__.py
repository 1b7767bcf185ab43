"""The engine: one experiment at a time, in a child process that the parent outlives.

Modules: ``loading`` and ``block`` (strict reading of experiment files), ``handover`` and ``child`` (the process that acts),
``activity`` (what every activity is wrapped in), ``ladder`` (ending the child), ``conforming`` (conformance before and after),
``admission`` (gates), ``runner`` (one experiment), ``campaign`` (all of a run).
"""
