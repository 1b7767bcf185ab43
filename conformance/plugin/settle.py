"""``--settle SECONDS``: wait until roll-outs and changes under way have come to rest, then judge.

It lists again instead of watching: the account of a read-only run may list and nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from conformance.common_findings import still_moving
from fixtures.cluster.client import Cluster
from fixtures.model.cluster import Scope
from fixtures.model.platform.namespaces import OPERATORS
from fixtures.policy.model import Policy
from fixtures.snapshot.collect import collect

KEYS = ("nodes", "pods", "apps/daemonsets", "resource.k8s.io/resourceslices", *OPERATORS)
FIRST_PAUSE, LONGEST_PAUSE = 2.0, 15.0
"""Seconds between two reads; each pause is half as long again as the one before."""

MAX_NAMED = 3


def settle(cluster: Cluster, policy: Policy, version: str, seconds: float, say: Callable[[str], None]) -> bool:
    """Wait for at most ``seconds``. Returns whether the cluster is at rest; says what is awaited, and for how long still."""
    begun, pause = time.monotonic(), FIRST_PAUSE
    waited = threading.Event()  # never set: an interrupt ends the wait at once
    while True:
        doing = still_moving(Scope(collect(cluster, KEYS, version=version), policy))
        left = seconds - (time.monotonic() - begun)
        if not doing:
            say(f"settled: nothing is under way after {time.monotonic() - begun:.0f} s")
            return True
        named = "; ".join(doing[:MAX_NAMED]) + (f" (and {len(doing) - MAX_NAMED} more)" if len(doing) > MAX_NAMED else "")
        if left <= 0:
            say(f"not settled after {seconds:.0f} s, judged as it is: {named}")
            return False
        end = datetime.now().astimezone() + timedelta(seconds=left)
        say(f"settling, up to {left:.0f} s more, until {end:%H:%M:%S}: {named}")
        waited.wait(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)
