"""What the doctor found out: rights, versions, free devices, and what a run would judge.

The read requirements are judged in this process, silently, and no verdict of theirs is kept. So what would be judged is known and not
guessed. While the target is still open, the API server is asked about every right.
"""

import contextlib
import io
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence

import msgspec
import pytest

from conformance.inv.rights import rights
from conformance.plugin.options import OPTIONS, SUITE
from conformance.plugin.progress import REPORT
from conformance.plugin.session import REQUIREMENT, STATE, State
from conformance.probes.node_sampling import kept_away
from conformance.requirement import Requirement, needs_of
from conformance.version import VERSION
from fixtures.cluster.access import Review, ask_rights
from fixtures.kubernetes.models import Node
from fixtures.model.cluster import Scope
from fixtures.model.devices.offers import without_devices
from fixtures.model.nodes.peers import driver_version
from fixtures.model.nodes.pools import pools
from fixtures.model.placement.free_devices import Place, places_of
from fixtures.text.sentences import listed
from fixtures.verdict.coverage import beyond_access, is_judged
from fixtures.verdict.record import Access, Cause, Report, Target, TargetKind
from fixtures.verdict.subjects import Inconclusive, NotApplicable

READY, NOT_READY = 0, 10
FORMAT = "1.0"

USAGE = 4
_ENDED = "Exit: gpu-conformance: "
"""What pytest writes before the words of who ends it."""


class MissingRight(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A right that the account lacks, or about which the API server gave no answer (``unknown``)."""

    right: str
    needed_by: tuple[str, ...]
    reason: str = ""
    unknown: bool = False


class Rights(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How many rights a run needs, and which are missing. ``asked`` is 0 for a saved snapshot."""

    asked: int
    missing: tuple[MissingRight, ...] = ()


class Pool(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Devices of one resource on the nodes of one product. ``free`` counts those on nodes that probes can use."""

    product: str
    resource: str
    nodes: int
    usable_nodes: int
    devices: int
    free: int


class LeftOut(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node that no probe can use, or a requirement that is not judged, and why: one sentence without a full stop."""

    name: str
    because: str


class Outlook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The requirements of the catalogue by what a run would do with them: their ids, each in one list.

    ``judged`` were tried. ``probed`` ask the cluster, and nothing that was read would stop their probes.
    """

    requirements: int
    judged: tuple[str, ...]
    probed: tuple[str, ...]
    not_judged: tuple[LeftOut, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything that the doctor tells. ``ready``: a run has all rights and reads, and something to judge."""

    schema_version: str = FORMAT
    suite_version: str = VERSION
    ready: bool
    exit_code: int
    seconds: float = 0.0
    target: Target
    access: Access
    presets: tuple[str, ...]
    kubelets: dict[str, int]
    drivers: dict[str, int]
    accelerator_nodes: int
    rights: Rights
    pools: tuple[Pool, ...]
    nodes_left_out: tuple[LeftOut, ...]
    outlook: Outlook
    obstacles: tuple[str, ...]
    notes: tuple[str, ...]


def diagnose(
    state: State, report: Report, *, ceiling: Access, reviews: Sequence[Review], read_only: bool = False, with_devices: Collection[str] = ()
) -> Diagnosis:
    """The diagnosis of a trial run. ``report`` is its record; ``with_devices`` are ids whose probes hold devices."""
    rights = Rights(asked=len(reviews), missing=tuple(_missing(reviews)))
    pools_found, nodes_left_out = _devices(state.scope)
    free = any(pool.free for pool in pools_found)
    outlook = _outlook(state, report, ceiling, read_only, rights, frozenset() if free else frozenset(with_devices))
    obstacles = tuple(_obstacles(state, report, rights))
    return Diagnosis(
        ready=not obstacles,
        exit_code=NOT_READY if obstacles else READY,
        target=report.target,
        access=ceiling,
        presets=tuple(f"{preset.name} ({preset.why})" for preset in report.run.presets),
        kubelets=_kubelets(state.scope),
        drivers=_drivers(state.scope),
        accelerator_nodes=len(report.inventory),
        rights=rights,
        pools=pools_found,
        nodes_left_out=nodes_left_out,
        outlook=outlook,
        obstacles=obstacles,
        notes=tuple(report.scope.notes) if report.scope else (),
    )


def _missing(reviews: Iterable[Review]) -> Iterator[MissingRight]:
    for review in reviews:
        if not review.allowed:
            right = review.right
            yield MissingRight(right=str(right), needed_by=right.needed_by, reason=review.reason, unknown=review.allowed is None)


def _devices(scope: Scope) -> tuple[tuple[Pool, ...], tuple[LeftOut, ...]]:
    """Devices by product, and the nodes that no probe can use. Nothing where nodes or pods could not be read."""
    try:
        grouped = [
            (product, node, _why_unusable(scope, node))
            for product, nodes in pools(scope, scope.accelerator_nodes).items()
            for node in nodes
        ]
        rows: dict[tuple[str, str], list[tuple[Place, bool]]] = {}
        for product, node, why in grouped:
            for place in places_of(scope, node):
                rows.setdefault((product, place.resource), []).append((place, not why))
    except (Inconclusive, NotApplicable):
        return (), ()
    found = [
        Pool(
            product=product,
            resource=resource,
            nodes=len(places),
            usable_nodes=sum(usable for _, usable in places),
            devices=sum(place.capacity for place, _ in places),
            free=sum(place.free for place, usable in places if usable),
        )
        for (product, resource), places in sorted(rows.items())
    ]
    return tuple(found), tuple(LeftOut(name=node.name, because=why) for _, node, why in grouped if why)


def _why_unusable(scope: Scope, node: Node) -> str:
    """Why no probe can use a node, or empty."""
    return scope.why_not_judged(node) or without_devices(scope, node) or kept_away(scope, node)


def _kubelets(scope: Scope) -> dict[str, int]:
    """Versions of the kubelets, with the number of nodes of each."""
    listing = scope.snapshot.listing("nodes")
    if listing.trouble:
        return {}
    return dict(sorted(Counter(node.status.node_info.kubelet_version or "unknown" for node in listing.items).items()))


def _drivers(scope: Scope) -> dict[str, int]:
    """Versions of the NVIDIA driver that slices or labels tell, with the number of nodes of each."""
    try:
        found = Counter(driver_version(scope, node) for node in scope.accelerator_nodes)
    except (Inconclusive, NotApplicable):
        return {}
    return {version: count for version, count in sorted(found.items()) if version}


def _outlook(state: State, report: Report, ceiling: Access, read_only: bool, rights: Rights, without_device: Collection[str]) -> Outlook:
    """Which requirements a run would judge, and why not the others."""
    causes = {one.id: one for one in (report.scope.not_judged if report.scope else ())}
    judged = {result.id for result in report.results if is_judged(result)}
    probed, left_out = [], []
    for requirement in state.catalogue.by_id.values():
        if requirement.id in judged:
            continue
        trial = causes.get(requirement.id)
        because = ""
        if trial is None or trial.cause is not Cause.ACCESS:
            because = trial.because if trial else "the trial ended before its turn"
        elif requirement.access.rank > ceiling.rank:
            because = f"it {beyond_access(requirement.access, ceiling, read_only=read_only)}"
        else:
            because = _what_stops_a_probe(requirement, state, rights, without_device)
        if because:
            left_out.append(LeftOut(name=requirement.id, because=because))
        else:
            probed.append(requirement.id)
    order = [id_ for id_ in state.catalogue.by_id if id_ in judged]
    return Outlook(requirements=len(state.catalogue.by_id), judged=tuple(order), probed=tuple(probed), not_judged=tuple(left_out))


def _what_stops_a_probe(requirement: Requirement, state: State, rights: Rights, without_device: Collection[str]) -> str:
    lacking = [one.right for one in rights.missing if requirement.id in one.needed_by]
    if lacking:
        return f"the account may not {listed(lacking, 3)}"
    for key in requirement.reads:
        if not state.snapshot.listing(key).served:
            return f"the cluster does not serve {key}"
    return "no device is free on a node that a probe can use" if requirement.id in without_device else ""


def _obstacles(state: State, report: Report, rights: Rights) -> Iterator[str]:
    """What would make a run end with exit code 10, a sentence each."""
    if rights.missing:
        yield f"{len(rights.missing)} of {rights.asked} rights are missing"
    seen: set[str] = set()
    for key in ("nodes", "pods", "namespaces", *state.needs.reads):
        listing = state.snapshot.listing(key)
        if listing.trouble and listing.trouble != "Forbidden" and key not in seen:
            seen.add(key)
            yield f"{key} could not be listed: {listing.message}"
    refused = tuple(f"{result.id} was refused: " for result in report.results)
    for sentence in report.scope.shortfalls if report.scope else ():
        if not sentence.startswith(refused):  # said above, by right
            yield sentence
    if not any(is_judged(result) for result in report.results):
        kind = "snapshot" if state.opened.target.kind is TargetKind.SNAPSHOT else "cluster"
        yield f"no requirement can be judged on this {kind}"


class CannotOpen(Exception):
    """The target could not be opened, or an option is wrong: one line."""


class TrialFailed(Exception):
    """The trial ended without a record: the suite's own fault, or a cluster of the suite's that did not start. Holds why."""


def examine(target: Sequence[str], ceiling: Access, *, read_only: bool) -> Diagnosis:
    """Judge what reading can judge, and foretell the rest of a run with the access ``ceiling``.

    ``target`` are pytest's options that name the cluster and the policy; ``read_only``: ``--read-only`` gave the access.
    Raises :class:`CannotOpen` and :class:`TrialFailed`.
    """
    examiner = _Examiner(ceiling, read_only)
    reported, complained = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory(prefix="gpu-conformance-") as folder:
        arguments = [*OPTIONS, str(SUITE), "--read-only", "--report-dir", folder, *target]
        with contextlib.redirect_stdout(reported), contextlib.redirect_stderr(complained):
            code = int(pytest.main(arguments, plugins=[examiner]))
    if code == USAGE:
        lines = [line.removeprefix("ERROR: ") for line in complained.getvalue().splitlines() if line.strip()]
        raise CannotOpen(" ".join(lines) or "the options are not understood")
    if examiner.diagnosis is None:
        ended = complained.getvalue().rpartition(_ENDED)[2]
        printed = reported.getvalue()[-3_000:]
        raise TrialFailed(ended if _ENDED in complained.getvalue() else f"the trial run ended without a record: {printed}")
    return examiner.diagnosis


class _Examiner:
    """Looks at the trial run from inside, while its target is open."""

    def __init__(self, ceiling: Access, read_only: bool) -> None:
        self._ceiling, self._read_only = ceiling, read_only
        self._opened = time.monotonic()
        self.diagnosis: Diagnosis | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """The target has answered: its own start does not count as time of the doctor's."""
        self._opened = time.monotonic()

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Every requirement has its result by now. Views of the record are not written."""
        state = session.config.stash.get(STATE, None)
        if state is not None:
            state.report_folder = None
        yield
        report = session.config.stash.get(REPORT, None)
        if state is None or report is None or not state.has_snapshot:
            return
        holding = {one.stash[REQUIREMENT].id: one for one in session.items if REQUIREMENT in one.stash}
        devices = frozenset(id_ for id_, item in holding.items() if _holds_devices(item))
        reviews = _reviews(state, self._ceiling)
        diagnosis = diagnose(state, report, ceiling=self._ceiling, read_only=self._read_only, reviews=reviews, with_devices=devices)
        self.diagnosis = msgspec.structs.replace(diagnosis, seconds=round(time.monotonic() - self._opened, 2))


def _holds_devices(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("requirement")
    return bool(mark is not None and mark.kwargs.get("devices"))


def _reviews(state: State, ceiling: Access) -> list[Review]:
    """Each right that a run up to ``ceiling`` needs, with the API server's answer. Nothing for a saved snapshot."""
    cluster = state.opened.cluster
    if cluster is None:
        return []
    wanted = rights(needs_of(state.catalogue.by_id.values(), ceiling), state.snapshot)
    return list(ask_rights(cluster, wanted))
