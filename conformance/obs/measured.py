"""OBS-01 and OBS-03: every device of every node is measured, and what is served is of now. Pure but for the scraper that is handed in."""

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec

from conformance.obs.flaws import Bracket, Flaw, Movement, against_driver, dead_activity, flaws, movement
from conformance.obs.page import read_page
from conformance.obs.scraping import AT_ONCE, NOT_REACHED, NOT_READ, Scrape, Scraper, Silence
from conformance.probes.node_documents import NodeDocuments
from conformance.requirement import Form
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope, subject
from fixtures.model.devices.measured_devices import exporter_of, facts_of
from fixtures.model.nodes.changes import change_under_way
from fixtures.model.platform.agents import agents, full_name, roll_out_under_way
from fixtures.model.platform.exporters import Exporter, exporter_daemonsets
from fixtures.nodeprobe.document import Device
from fixtures.text.sentences import listed
from fixtures.verdict.findings import CHANGE_UNDER_WAY, About, Finding, bad, ok, undecided

SOURCE = "metrics of {} by the API server's proxy"
SETTLING = 120.0
"""Seconds for which a new exporter may serve nothing: DCGM starts, and the first collection comes after that."""

_CAUSES = {Silence.REFUSED: "MetricsNotServed", Silence.UNREADABLE: "MetricsUnreadable", Silence.OTHER: "MetricsUnreadable"}


Reads = Callable[[Collection[str]], NodeDocuments]
"""Reads the documents of some nodes now."""


def check_measured(scope: Scope, scraper: Scraper, brackets: Mapping[str, Bracket]) -> Iterator[Finding]:
    """OBS-01: one finding per accelerator node. ``brackets`` have what the drivers of some say, where the run may ask them."""
    pages = scraper.first()
    places: dict[str, list[str]] = {}
    for name, scraped in pages.items():
        for part in scraped.page.parts if scraped.page else ():
            if name not in places.setdefault(part.uuid, []):
                places[part.uuid].append(name)
    places.pop("", None)
    for node in scope.accelerator_nodes:
        one = pages.get(node.name)
        if one is None or one.page is None:
            yield _silent(scope, node, scraper.exporters.get(node.name), one, pages)
            continue
        found = flaws(one.page, facts_of(scope, node, one.page.devices, places), scope.policy.metrics.families)
        if node.name in brackets:
            found += [flaw for flaw in against_driver(brackets[node.name]) if flaw not in found]
        if found and (doing := change_under_way(node, scope.policy, scope.snapshot.taken_at)):
            message = f"its page does not suit it yet: {doing}"
            yield undecided(subject(node), cause=CHANGE_UNDER_WAY, message=message, source=SOURCE.format(one.exporter.name))
            continue
        shown = f"{len(one.page.devices)} devices with {listed(scope.policy.metrics.families)}"
        yield _judged(node, one, found, shown, "a series of each family for every device of the node, each once, with a value of its unit")


class _Kept(msgspec.Struct, omit_defaults=True):
    """A bracket as evidence has it."""

    texts: list[str]
    devices: list[Device]
    seconds: float = 0.0


def _given(kept: _Kept) -> Bracket:
    first, *after = map(read_page, kept.texts)
    return Bracket(before=first, devices=tuple(kept.devices), after=tuple(after), seconds=kept.seconds, texts=tuple(kept.texts))


BRACKETS: Form[Mapping[str, Bracket]] = Form(
    dict[str, _Kept],
    keep=lambda found: {name: _Kept(list(one.texts), list(one.devices), one.seconds) for name, one in found.items()},
    give=lambda kept: {name: _given(one) for name, one in kept.items()},
)


def bracketed(scope: Scope, scraper: Scraper, documents: NodeDocuments, read: Reads) -> dict[str, Bracket]:
    """The documents of nodes with a page, each read anew between pages: one before it, and those of the next two collections, as one may
    be under way. Where that does not succeed, the document of the run and the first page are what there is.
    """
    first = {name: one for name, one in scraper.first().items() if name in documents.by_node}
    found = {
        name: Bracket(before=one.page, devices=_devices(documents, name), texts=(one.text,)) for name, one in first.items() if one.page
    }
    names = list(found)
    for chunk in (names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)):
        before, now = scraper.now(chunk), read(chunk)
        seconds = scope.policy.metrics.fresh_seconds
        middle = {one.exporter.node: one for one in scraper.until(now.by_node, lambda _: False, seconds, collections=1)}
        for last in scraper.until(middle, lambda _: False, seconds, collections=1):
            pages = [before[last.exporter.node], middle[last.exporter.node], last]
            texts = tuple(dict.fromkeys(one.text for one in pages if one.page))
            if len(texts) == len(pages):
                earlier, *after = (one.page for one in pages if one.page)
                name, apart = last.exporter.node, last.at - pages[0].at
                found[name] = Bracket(before=earlier, devices=_devices(now, name), after=tuple(after), seconds=apart, texts=texts)
    return found


def _devices(documents: NodeDocuments, name: str) -> tuple[Device, ...]:
    return tuple(device for _, device in documents.by_node[name].devices())


def _silent(scope: Scope, node: Node, exporter: Exporter | None, one: Scrape | None, pages: Mapping[str, Scrape]) -> Finding:
    """Why a node has no page, and whether that is a fault."""
    about = About(subject(node))
    kind = exporter_of(scope, node)
    if isinstance(kind, str):
        return about.not_judged(kind, source="node.metadata.labels, node.status.capacity")
    if reason := scope.why_not_judged(node):
        return about.not_judged(f"{reason}, and its exporter gives no page", source="node.status")
    if doing := change_under_way(node, scope.policy, scope.snapshot.taken_at) or _rolled_out(scope, kind.vendor):
        return about.undecided(f"its exporter gives no page: {doing}", cause=CHANGE_UNDER_WAY, source="node, daemonset")
    if exporter is None or one is None:
        names = listed([full_name(item) for item, known in exporter_daemonsets(scope) if known.vendor == kind.vendor])
        return about.bad(
            f"no exporter of {kind.vendor} runs on it: no device is measured ({names or 'no DaemonSet looks like one'})",
            cause="ExporterMissing",
            observed="no exporter pod",
            expected=f"a pod of {names or ' or '.join(kind.images)}",
            source="pods of the node",
        )
    source, began = SOURCE.format(exporter.name), exporter.began()
    if one.silence is Silence.GONE or (began is not None and scope.snapshot.taken_at - began < SETTLING):
        message = f"{exporter.name} is new or was replaced: {one.why}"
        return about.undecided(message, cause=CHANGE_UNDER_WAY, source=source)
    if one.silence in NOT_READ:
        return about.undecided(f"{exporter.name} gives no page: {one.why}", source=source)
    if one.silence in NOT_REACHED and all(other.silence in NOT_REACHED for other in pages.values()):
        message = f"the API server reaches no exporter, so a network policy or its own network may be in the way: {one.why}"
        return about.undecided(message, cause="ExportersNotReached", source=source)
    return about.bad(
        f"{exporter.name} gives no page of metrics, so none of the node's devices is measured: {one.why}"[:600],
        cause=_CAUSES.get(one.silence, "MetricsNotServed"),
        observed=one.why[:300],
        expected="a page of metrics",
        source=source,
    )


def _rolled_out(scope: Scope, vendor: str) -> str:
    """That an exporter's DaemonSet is being rolled out, as a clause, or empty."""
    uids = {item.metadata.uid for item, kind in exporter_daemonsets(scope) if kind.vendor == vendor}
    rolled = (agent for agent in agents(scope) if agent.daemonset.metadata.uid in uids)
    words = (roll_out_under_way(agent, agent.accelerator_nodes, scope.policy, scope.snapshot.taken_at) for agent in rolled)
    return next(filter(None, words), "")


def _judged(node: Node, one: Scrape, found: list[Flaw], shown: str, expected: str) -> Finding:
    source = SOURCE.format(one.exporter.name)
    if not found:
        return ok(subject(node), observed=shown, expected=expected, source=source)
    texts = listed([flaw.text for flaw in found], 8)
    return bad(
        subject(node),
        cause=found[0].cause,
        observed=f"{len(found)} flaws on a page that has {shown}",
        expected=expected,
        source=source,
        message=texts[:1500],
    )


def check_moving(scope: Scope, scraper: Scraper) -> Iterator[Finding]:
    """OBS-03: one finding per accelerator node whose exporter gives a page. Raises :class:`NotApplicable` where none does."""
    before = scraper.pages()
    by_name = {node.name: node for node in scope.accelerator_nodes}
    seconds = scope.policy.metrics.fresh_seconds
    for one in scraper.last(before, lambda one: _settled(before[one.exporter.node], one), seconds):
        if (node := by_name.get(one.exporter.node)) is not None:
            yield judge_moving(node, before[node.name], one)


def _settled(first: Scrape, last: Scrape) -> bool:
    """Whether every device was seen to move: nothing is left to wait for."""
    found = _between(first, last)
    return found is not None and not (found.still and not found.moved) and not any(flaw.cause == "SamplesFrozen" for flaw in found.flaws)


def _between(first: Scrape, last: Scrape) -> Movement | None:
    return movement(first.page, last.page, last.at - first.at) if first.page and last.page else None


def judge_moving(node: Node, first: Scrape, last: Scrape) -> Finding:
    """What two pages of one exporter say."""
    found = _between(first, last)
    source = f"two pages of {last.exporter.name}, {last.at - first.at:.0f} s apart"
    about = About(subject(node), source)
    if found is None or last.page is None:
        return about.undecided(f"the second page did not come: {last.why}")
    wrong = [*found.flaws, *dead_activity(last.page)]
    if wrong or found.moved or not found.still:  # one collection fills the whole page
        expected = "every device's energy, or any of its values, changes from one page to the next"
        return _judged(node, last, wrong, f"{len(found.moved)} devices moved in {last.at - first.at:.0f} s", expected)
    if all(part.vgpu for part in last.page.parts):
        return about.not_judged("its devices are idle vGPUs, which show nothing that has to move")
    message = f"{listed(found.still)} are idle and none of their values changed in {last.at - first.at:.0f} s, which proves nothing"
    return about.undecided(message, cause="FreshnessUnknown")
