"""A plugin for ``-p``: a body may have less, so that hundreds of bodies without end are read up to their bound within a run's time."""

from fixtures.text import limits


def pytest_configure() -> None:
    """Bound this run. Importing this file must not: other tests in that process would have the bound too."""
    limits.BODY_BYTES = 8 << 20  # the scenarios' lists have less than one megabyte
