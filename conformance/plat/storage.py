"""PLAT-04: whether etcd keeps up, by what the API server says of it: its own checks, and how long its requests to etcd took.

The figures are those of the API server that answers, since its start. Members of etcd are UPG-03's.
Facts: https://kubernetes.io/docs/reference/using-api/health-checks/, https://kubernetes.io/docs/reference/instrumentation/metrics/.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

from conformance.probes.server_metrics import ETCD, PATH, ServerMetrics
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.policy.model import Policy
from fixtures.text.sentences import listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Inconclusive, Subject

CHECKS = "/readyz"
_BYTES = 1 << 20
_SECONDS = 60.0
_CHECK = re.compile(r"\[([+-])\](etcd[\w-]*)")
_FEWEST = 1000
"""Requests of which a hundredth is more than a few that a start made slow."""
_QUANTILE = 0.99


def read_checks(cluster: Cluster) -> dict[str, bool]:
    """The API server's checks of etcd by name, and whether each passes. Raises :class:`Inconclusive` where the caller may not ask."""
    try:
        answer = cluster.request("GET", CHECKS, query={"verbose": "1"}, accept="*/*", attempts=1, seconds=_SECONDS, cut_at=_BYTES)
    except ApiTrouble as trouble:
        if not _CHECK.search(trouble.message):
            raise
        text = trouble.message  # a failed check makes it a 500, whose body begins with the checks
    else:
        if not answer.ok:
            raise Inconclusive(answer.reason, f"GET {CHECKS}: {answer.status} {answer.message}")
        text = answer.body.decode(errors="replace")
    return {name: sign == "+" for sign, name in _CHECK.findall(text)}


def buckets_of(metrics: ServerMetrics) -> dict[float, float]:
    """The buckets of all requests to etcd, whatever they were about: upper bound in seconds → number."""
    found: dict[float, float] = defaultdict(float)
    for labels, number in metrics.of(ETCD):
        try:
            found[float(labels.get("le", ""))] += number
        except ValueError:
            continue
    return dict(found)


def _slowest(buckets: Mapping[float, float]) -> tuple[float, float]:
    """Between which two bounds, in seconds, the 99th percentile is: nothing finer is known. The upper one may be infinite."""
    below = 0.0
    for bound in sorted(buckets):
        if buckets[bound] >= _QUANTILE * buckets[math.inf]:
            return below, bound
        below = bound
    return below, math.inf


def check_storage(checks: Mapping[str, bool], metrics: ServerMetrics, policy: Policy) -> Iterator[Finding]:
    """One finding about the checks of etcd by name, one about the requests."""
    about = About(Subject("API server", "checks of etcd"), f"GET {CHECKS}?verbose", "every check of etcd ok")
    if failed := [name for name, good in checks.items() if not good]:
        message = "the API server does not reach its etcd in time: requests fail, and a load balancer takes the server out"
        yield about.bad(message, cause="EtcdNotReady", observed=f"{listed(failed)} failed")
    elif checks:
        yield about.ok(f"{listed(list(checks))} ok")
    else:
        yield about.not_judged("this API server's readiness has no check of etcd")
    limit, buckets = policy.operators.etcd_seconds, buckets_of(metrics)
    about = About(Subject("API server", "requests to etcd"), f"GET {PATH}: {ETCD}", f"99 of 100 within {limit:g} s")
    requests = int(buckets.get(math.inf, 0))
    if metrics.trouble:
        yield about.undecided(f"the API server's figures could not be read: {metrics.trouble}", cause=metrics.code)
    elif requests < _FEWEST:
        yield about.not_judged(f"{requests} requests since this API server started: fewer than {_FEWEST} say nothing of the slowest")
    else:
        low, high = _slowest(buckets)
        observed = f"the 99th percentile of {requests} requests since its start is between {low:g} and {high:g} s"
        if low >= limit:
            message = f"{observed}: leases and bindings wait for etcd, and nodes go NotReady that are sound"
            yield about.bad(message, cause="EtcdSlow", observed=observed)
        else:
            yield about.ok(observed)
