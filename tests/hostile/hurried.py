"""A plugin for ``-p``: a request that never ends costs a run seconds, and not half a minute."""

from fixtures.cluster.client import Cluster

SECONDS = 4.0
"""For a request. The suite has 30, and no option for it."""


def pytest_configure() -> None:
    """Hurry this run. Importing this file must not: other tests in that process would be hurried too."""
    defaults = Cluster.request.__kwdefaults__ or {}
    assert "seconds" in defaults
    defaults["seconds"] = SECONDS
