"""Commands for those who work on the suite, and their tests: ``make check`` and ``make docs``."""
