"""What the API server counts of itself: its page ``/metrics``, read once in a run. Source: docs/facts/kubernetes-versions.md#metrics."""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from conformance.outputs.captured_text import Unreadable
from conformance.outputs.dcgm import Sample, parse_samples
from conformance.requirement import Asks, Form
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble

PATH = "/metrics"
SECONDS = 60.0
MOST_BYTES = 96 << 20
"""A busy API server has tens of megabytes, most of them latencies of its own, which are not kept."""
REQUESTS = "apiserver_request_total"
DEPRECATED = "apiserver_requested_deprecated_apis"
STARTED = "process_start_time_seconds"
ETCD = "etcd_request_duration_seconds_bucket"
_KEPT = (REQUESTS, DEPRECATED, STARTED, ETCD)
MOST_KEPT = 200_000


class ServerMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one API server, of all those that may answer. ``trouble`` says why there are none; ``code`` is its cause.

    ``text`` are the lines of the page that the samples are read from.
    """

    samples: Sequence[Sample] = ()
    text: str = ""
    code: str = ""
    trouble: str = ""

    def of(self, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
        """Labels and value of each series of a name."""
        return ((one.labels, one.value) for one in self.samples if one.name == name)

    @property
    def since(self) -> float | None:
        """When this API server started, Unix seconds: its counts begin there."""
        return next((value for _, value in self.of(STARTED)), None)


def read_server_metrics(cluster: Cluster) -> ServerMetrics:
    """Read the page. Never raises: it says which trouble there was."""
    try:
        answer = cluster.request("GET", PATH, accept="*/*", attempts=2, seconds=SECONDS, cut_at=MOST_BYTES)
    except ApiTrouble as trouble:
        return ServerMetrics(code="ApiTrouble", trouble=trouble.message)
    if not answer.ok:
        code = "RightMissing" if answer.status == 403 else "ApiTrouble"
        return ServerMetrics(code=code, trouble=f"{answer.status} {answer.message}")
    if len(answer.body) >= MOST_BYTES:
        return ServerMetrics(code="ApiTrouble", trouble=f"the page is larger than {MOST_BYTES >> 20} MiB")
    return parse(answer.text)


def server_metrics(asks: Asks) -> ServerMetrics:
    """What the API server of the run counts of itself."""
    return asks(f"GET {PATH}, the series that are read", read_server_metrics, _FORM)


def parse(text: str) -> ServerMetrics:
    """The samples of a page. What has no count of requests is none of an API server."""
    kept = [line for line in text.splitlines() if line.startswith(_KEPT)]
    if len(kept) > MOST_KEPT:
        return ServerMetrics(code="NotUnderstood", trouble=f"the page has more than {MOST_KEPT} of the series that are read")
    try:
        samples = parse_samples("\n".join(kept)) if kept else []
    except Unreadable as error:
        return ServerMetrics(code="NotUnderstood", trouble=str(error))
    if not any(one.name == REQUESTS for one in samples):
        return ServerMetrics(code="NotUnderstood", trouble=f"the page has no {REQUESTS}, as each API server's has")
    return ServerMetrics(samples=samples, text="\n".join(kept))


_FORM = Form(
    dict[str, str],
    keep=lambda read: {"text": read.text, "code": read.code, "trouble": read.trouble},
    give=lambda kept: parse(kept["text"]) if kept["text"] else ServerMetrics(code=kept["code"], trouble=kept["trouble"]),
)
