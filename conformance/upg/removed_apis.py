"""UPG-01: nothing uses a version of an API that the next Kubernetes version removes."""

from collections import Counter
from collections.abc import Callable, Iterator

from conformance.probes.server_metrics import DEPRECATED, REQUESTS, ServerMetrics
from fixtures.model.cluster import Scope
from fixtures.model.platform.kubernetes_version import minor_of, running_and_target
from fixtures.model.platform.removed_apis import webhook_rules, writers
from fixtures.tables.rows import REMOVED
from fixtures.text.sentences import duration, listed
from fixtures.verdict.findings import About, Finding
from fixtures.verdict.subjects import Subject

_READING = {"LIST", "WATCH", "DELETECOLLECTION"}
"""What the controllers of garbage and namespaces do of each kind that they find served, whoever else uses it."""
_SERVER = Subject("APIServer", "/metrics")


def check_removed_apis(scope: Scope, ask: Callable[[], ServerMetrics]) -> Iterator[Finding]:
    """One finding per webhook, per removed API that clients ask for, and one for the API server's counts.

    ``ask`` reads the counts of a live cluster. Raises :class:`Inconclusive` where no version is known.
    """
    running, target = running_and_target(scope, ahead=1)
    for one in webhook_rules(scope):
        about = About(one.place, f"rules; tables of {REMOVED.table.date}", f"rules on versions that Kubernetes 1.{target} serves")
        if gone := [api for api, end in one.gone() if (running or 0) < end <= target]:
            message = f"its rules name {listed(gone)} alone, which 1.{target} serves no more: it is then asked for nothing"
            yield about.bad(message, cause="WebhookOnRemovedApi", observed=listed(gone))
        else:
            yield about.ok("rules on versions that stay")
    if scope.snapshot.offline:
        yield About(_SERVER).not_judged("a saved snapshot has no counts of the API server's requests")
        return
    yield from _requests(scope, ask(), target)


def _requests(scope: Scope, metrics: ServerMetrics, target: int) -> Iterator[Finding]:
    """Deprecated APIs of the API server that answered: its counts begin with its start, and others have counts of their own."""
    about = About(_SERVER, DEPRECATED, f"no request for an API that Kubernetes 1.{target} removes")
    if metrics.trouble:
        yield about.undecided(f"the API server's counts could not be read: {metrics.trouble}", cause=metrics.code)
        return
    used: dict[tuple[str, str, str], int] = {}
    for labels, value in metrics.of(DEPRECATED):
        removed = minor_of(labels.get("removed_release", ""))
        if value > 0 and removed is not None and removed <= target:
            used[labels.get("group", ""), labels.get("version", ""), labels.get("resource", "")] = removed
    counts: dict[tuple[str, str, str], Counter[str]] = {key: Counter() for key in used}
    for labels, value in metrics.of(REQUESTS):
        place = (labels.get("group", ""), labels.get("version", ""), labels.get("resource", ""))
        if place in counts and 0 < value < 1e15:
            counts[place][labels.get("verb", "")] += int(value)
    age = f" in {duration(scope.snapshot.read_at - metrics.since)}" if metrics.since else ""
    for place, removed in sorted(used.items()):
        yield _judge(scope, place, removed, counts[place], age)
    if not used:
        later = sum(1 for _, value in metrics.of(DEPRECATED) if value > 0)
        yield about.ok(f"none{age}; {later} deprecated ones that stay")


def _judge(scope: Scope, place: tuple[str, str, str], removed: int, verbs: Counter[str], age: str) -> Finding:
    group, version, kind = place
    api, key = f"{group}/{version}".lstrip("/"), f"{group}/{kind}".lstrip("/")
    asked = listed([f"{count} {verb}" for verb, count in sorted(verbs.items())]) or "requests that it does not count"
    about = About(Subject("API", f"{api} {kind}"), DEPRECATED, "no request for it", observed=f"{asked}{age}")
    by = f", written through it by {listed(names, 3)}" if (names := writers(scope, key, api)) else ""
    message = f"{kind} are asked for by {api}, which Kubernetes 1.{removed} removes ({asked}{age}{by}): who asks gets 404 then"
    elsewhere = scope.snapshot.versions.get(key, version) != version
    if verbs and set(verbs) <= _READING and not elsewhere:
        return about.advised(f"{message}; it may be the garbage collector, which lists all that is served", cause="RemovedApiRead")
    return about.bad(message, cause="RemovedApiInUse")
