"""Pages of metrics through the API server's proxy to the exporter's pod of each node, and why there is none.

Facts: docs/facts/telemetry.md#exporters.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import cached_property

import msgspec

from conformance.obs.page import Page, read_page
from conformance.outputs.captured_text import Unreadable
from conformance.requirement import Asks, Form
from fixtures.cluster.answer import UNREADABLE, Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import TOO_LARGE, ApiTrouble
from fixtures.model.cluster import Scope
from fixtures.model.platform.exporters import Exporter, exporters
from fixtures.verdict.subjects import Inconclusive, NotApplicable

AT_ONCE = 8
SECONDS = 15.0
PAGE_BYTES = 16 << 20
_PAUSE = 0.5
COLLECTIONS = 3
"""So often an exporter has to have collected before what it still names, or does not name, is held against it."""
_REFUSED = ("connection refused", "EOF", "connection reset", "no endpoints available", "malformed HTTP")
"""Words of an API server for a pod that it reached and that does not serve."""
_NO_PAGE = ("{", "[", "<")
"""How JSON and HTML begin, and no page of metrics: a proxy or a page to sign in answered."""
_WANTS_TLS = b"HTTP request to an HTTPS server"
"""What a server in Go answers to whoever asks it without TLS."""


class Silence(StrEnum):
    """Why an exporter gave no page."""

    NONE = ""
    REFUSED = "refused"  # the pod's machine answered, and nothing serves there
    UNREACHED = "unreached"  # the API server got no answer: the pod or the network between them
    OTHER = "other"  # something else answered in its place
    LOCKED = "locked"  # the exporter wants credentials of its own
    GONE = "gone"  # the pod was replaced since the cluster was read
    UNREADABLE = "unreadable"  # what was served is no page of metrics
    TOO_LARGE = "too large"  # the suite reads no answer of that size


NOT_REACHED = frozenset({Silence.UNREACHED, Silence.OTHER})
"""Where all exporters are like that, the reason is between them and the API server."""

NOT_READ = frozenset({Silence.LOCKED, Silence.TOO_LARGE})
"""Nothing is known of the page then, and the exporter may serve it well to others."""


class Scrape(msgspec.Struct, frozen=True, kw_only=True):
    """One answer of one exporter: a page and its text, or why there is none. ``at`` is monotonic."""

    exporter: Exporter
    at: float
    page: Page | None = None
    text: str = ""
    silence: Silence = Silence.NONE
    why: str = ""


def _page(cluster: Cluster, path: str) -> Answer:
    return cluster.request("GET", path, accept="*/*", attempts=2, seconds=SECONDS, cut_at=PAGE_BYTES)


def scrape(cluster: Cluster, exporter: Exporter) -> Scrape:
    """Ask one exporter for its page. Raises :class:`Inconclusive` where the caller may not use the proxy."""
    made = Scrape(exporter=exporter, at=time.monotonic())
    replaced = msgspec.structs.replace
    try:
        answer = _page(cluster, exporter.path())
        if answer.status == 400 and _WANTS_TLS in answer.body:
            answer = _page(cluster, exporter.path(tls=True))
    except ApiTrouble as trouble:
        if trouble.code == UNREADABLE:
            return replaced(made, silence=Silence.OTHER, why=trouble.message.partition(": ")[2] or trouble.message)
        if trouble.code == TOO_LARGE:
            return replaced(made, silence=Silence.TOO_LARGE, why=trouble.message)
        refused = any(word in trouble.message for word in _REFUSED)
        return replaced(made, silence=Silence.REFUSED if refused else Silence.UNREACHED, why=trouble.message)
    if answer.status == 403 and answer.is_status:
        raise Inconclusive("Forbidden", f"the pages of exporters cannot be read: {answer.message}")
    if answer.status in (401, 403):
        return replaced(made, silence=Silence.LOCKED, why=f"it answers {answer.status}: it wants credentials that the suite has not")
    if answer.status == 404 and answer.is_status:
        return replaced(made, silence=Silence.GONE, why=answer.message)
    if not answer.ok:
        return replaced(made, silence=Silence.REFUSED, why=f"{answer.status} {answer.quoted(120)}")
    if len(answer.body) >= PAGE_BYTES:
        return replaced(made, silence=Silence.TOO_LARGE, why=f"the page is larger than {PAGE_BYTES >> 20} MiB")
    text = answer.text
    if text.lstrip()[:1] in _NO_PAGE:
        return replaced(made, silence=Silence.OTHER, why=f"something else answers in its place: {answer.quoted(120)}")
    try:
        return replaced(made, page=read_page(text), text=text)
    except Unreadable as error:
        return replaced(made, text=text, silence=Silence.UNREADABLE, why=str(error))


class Scraper:
    """Every exporter of the nodes that the run is about, asked once and remembered, and again where something has to change."""

    def __init__(self, cluster: Cluster, scope: Scope) -> None:
        self._cluster, self._scope = cluster, scope
        self._first: dict[str, Scrape] | None = None
        self._lock = threading.Lock()  # probes that run together ask for the same pages

    @cached_property
    def exporters(self) -> dict[str, Exporter]:
        """The exporters of the nodes that the run is about, by node. Raises what reading pods and DaemonSets raises."""
        chosen = self._scope.chosen
        return {name: one for name, one in exporters(self._scope).items() if not chosen or name in chosen}

    def first(self) -> Mapping[str, Scrape]:
        """The first page of every exporter, by node.

        Where others answer, an exporter that gives none is asked once more: one lost answer is nobody's fault.
        """
        with self._lock:
            if self._first is None:
                found = self.now(self.exporters)
                if any(one.page for one in found.values()):
                    found |= self.now([node for node, one in found.items() if not one.page])
                self._first = found
            return self._first

    def pages(self) -> dict[str, Scrape]:
        """The first answer of each exporter that gave a page, by node.

        Raises:
            Inconclusive: none was reached, so nothing is known of their pages.
            NotApplicable: none gives a page, which OBS-01 judges.
        """
        first = self.first()
        found = {node: one for node, one in first.items() if one.page}
        if first and all(one.silence in {*NOT_REACHED, *NOT_READ, Silence.GONE} for one in first.values()):
            raise Inconclusive("ExportersNotReached", f"no exporter was reached: {next(iter(first.values())).why}")
        if not found:
            raise NotApplicable("NoMetrics", "no exporter gives a page of metrics (OBS-01 says why)")
        return found

    def now(self, nodes: Iterable[str]) -> dict[str, Scrape]:
        """A new page of the exporters of these nodes that have one. At most :data:`AT_ONCE` at a time."""
        asked = [self.exporters[node] for node in nodes if node in self.exporters]
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="scrape") as pool:
            return {one.exporter.node: one for one in pool.map(lambda exporter: scrape(self._cluster, exporter), asked)}

    def last(self, nodes: Iterable[str], done: Callable[[Scrape], bool], seconds: float) -> Iterable[Scrape]:
        """The last page of each node, as :meth:`until` gives it."""
        return self.until(nodes, done, seconds)

    def until(self, nodes: Iterable[str], done: Callable[[Scrape], bool], seconds: float, *, collections: int = 0) -> Iterator[Scrape]:
        """The page of each node with which ``done`` is content, or the last one before ``seconds`` have passed.

        ``collections``: so many further pages that differ are enough. The exporter has collected as often then, and knows all there is.
        Nothing can be watched here: an exporter collects at times of its own, and a page is all that it tells.
        """
        open_, deadline, pause = [node for node in nodes if node in self.exporters], time.monotonic() + seconds, _PAUSE
        seen: dict[str, list[str]] = {node: [] for node in open_}
        while open_:
            last = time.monotonic() >= deadline
            for node, one in self.now(open_).items():
                seen[node] += [one.text] if one.text not in seen[node][-1:] else []
                if last or done(one) or 0 < collections < len(seen[node]):
                    open_.remove(node)
                    yield one
            if last:
                return
            time.sleep(min(pause, max(deadline - time.monotonic(), 0.0)))
            pause = min(2 * pause, 10.0)


class _Served(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer of an exporter as it is kept."""

    at: float
    text: str = ""
    silence: Silence = Silence.NONE
    why: str = ""


class AskedScraper(Scraper):
    """The exporters for requirements that only read. What they say is kept as evidence, and ``live`` is asked once in a run."""

    def __init__(self, scope: Scope, asks: Asks, live: Callable[[], Scraper]) -> None:
        self._scope, self._asks, self._live = scope, asks, live
        self._form: Form[Mapping[str, Scrape]] = Form(
            dict[str, _Served],
            keep=lambda found: {node: _Served(one.at, one.text, one.silence, one.why) for node, one in found.items()},
            give=lambda kept: {node: _as_scraped(self.exporters[node], one) for node, one in kept.items()},
        )

    def first(self) -> Mapping[str, Scrape]:
        """As kept, or as the live exporters gave it."""
        return self._asks("pages of exporters", lambda _: self._live().first(), self._form)

    def now(self, nodes: Iterable[str]) -> dict[str, Scrape]:
        """Of the live exporters, and never kept."""
        return self._live().now(nodes)

    def last(self, nodes: Iterable[str], done: Callable[[Scrape], bool], seconds: float) -> Iterable[Scrape]:
        """Those of one requirement: OBS-03."""
        found = self._asks(
            "later pages of exporters", lambda _: {one.exporter.node: one for one in self.until(nodes, done, seconds)}, self._form
        )
        return found.values()


def _as_scraped(exporter: Exporter, served: _Served) -> Scrape:
    page = read_page(served.text) if served.silence is Silence.NONE else None
    return Scrape(exporter=exporter, at=served.at, page=page, text=served.text, silence=served.silence, why=served.why)
