"""A plugin for ``-p``: a request that never ends costs a run seconds, and not half a minute."""

from __future__ import annotations

from fixtures.cluster.client import Cluster

SECONDS = 4.0
"""For a request. The suite has 30, and no option for it."""

_defaults = Cluster.request.__kwdefaults__ or {}
assert "seconds" in _defaults
_defaults["seconds"] = SECONDS
