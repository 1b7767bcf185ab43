"""Read requirements over a snapshot in this process, by the tests of the catalogue themselves: a run without pytest around it."""

import importlib
import inspect
from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any, NoReturn

from conformance.catalogue import load_catalogue
from conformance.obs.scraping import AskedScraper, Scraper
from conformance.plugin.opening import OpenTarget, WorkerHandover
from conformance.plugin.options import Options
from conformance.plugin.session import State
from conformance.plugin.verdict import check_preconditions, conclude
from conformance.probes.node_documents import NodeDocuments
from conformance.requirement import Asks, Form, Made
from fixtures.model.cluster import Scope
from fixtures.policy.model import Policy
from fixtures.simulator.config.scenario import defect_names, load_defect
from fixtures.snapshot.managed_fields import fields_of
from fixtures.snapshot.state import Snapshot
from fixtures.verdict.findings import Evidence, Finding
from fixtures.verdict.record import Access, Result, Target, TargetKind
from fixtures.verdict.subjects import NotApplicable

CATALOGUE = load_catalogue()
READ = [id_ for id_, one in CATALOGUE.by_id.items() if one.access is Access.READ]


def representatives(ids: Iterable[str]) -> set[str]:
    """A few defects that turn all of these requirements red between them."""
    trips = {name: set(load_defect(name).trips) for name in defect_names()}
    found, left = set(), set(ids)
    while left:
        found.add(name := max(trips, key=lambda name: len(left & trips[name])))
        left -= trips[name]
    return found


class _Request:
    """What a test asks pytest for when it needs to: the cluster, which a saved snapshot has not."""

    def getfixturevalue(self, name: str) -> Any:
        raise NotApplicable("NoCluster", f"a saved snapshot has no {name}")


def asking(cluster: Any) -> Asks:
    """What asks this cluster at once, each time, as a run does the first time."""

    def ask(question: str, ask: Callable[[Any], Made], form: Form[Made]) -> Made:
        return ask(cluster)

    return ask


def _ask(question: str, ask: object, form: object) -> NoReturn:
    raise NotApplicable("NoCluster", f"a saved snapshot does not say {question}")


@cache
def tests_by_id() -> dict[str, Callable[..., None]]:
    """The test of each requirement."""
    found: dict[str, Callable[..., None]] = {}
    for area in CATALOGUE.areas:
        name = area.area.lower()
        module = importlib.import_module(f"conformance.{name}.test_{name}")
        for value in vars(module).values():
            for mark in getattr(value, "pytestmark", ()):
                if mark.name == "requirement":
                    found[str(mark.args[0])] = value
    return found


def judge(
    snapshot: Snapshot,
    policy: Policy,
    ids: Iterable[str] = READ,
    *,
    may_probe: bool = False,
    documents: NodeDocuments | None = None,
    kept: dict[str, list[Finding]] | None = None,
) -> dict[str, Result]:
    """The results of read requirements over a snapshot, by id, as a run concludes them: one with ``--snapshot`` may not probe.

    With ``documents``, those that judge documents of nodes can be among them. ``kept`` gets every finding by the requirement's id.
    """
    kind = TargetKind.SNAPSHOT if documents is None else TargetKind.SIMULATED
    target = Target(kind=kind, server="built in a test")
    state = State(CATALOGUE, Options(snapshot="built", access=Access.HARDWARE), "r1")
    state.opened = OpenTarget(target, None, policy, WorkerHandover(target=target, run_id="r1"))
    state.snapshot = snapshot
    scope = state.scope
    given = documents or NodeDocuments()
    return {id_: _judge(id_, state, scope, may_probe, given, None if kept is None else kept.setdefault(id_, [])) for id_ in ids}


def _judge(id_: str, state: State, scope: Scope, may_probe: bool, documents: NodeDocuments, kept: list[Finding] | None) -> Result:
    requirement, error = CATALOGUE.by_id[id_], None
    evidence = state.evidence(requirement)
    known = {
        "judge": evidence if kept is None else partial(_keep, evidence, kept),
        "scope": scope,
        "snapshot": scope.snapshot,
        "policy": scope.policy,
        "now": scope.snapshot.taken_at,
        "request": _Request(),
        "needs": state.needs,
        "asks": _ask,
        "node_fields": lambda nodes: fields_of(scope.snapshot, nodes, partial(_ask, ask=None, form=None)),
        "scraper": AskedScraper(scope, _ask, lambda: Scraper(None, scope)),  # type: ignore[arg-type]
        "may_probe": may_probe,
        "may_ask": False,
        "has_baseline": False,
        "documents": documents,
        "documents_too": documents,
        "read_documents": lambda _: documents,
    }
    try:
        check_preconditions(requirement, state)
        test = tests_by_id()[id_]
        names = inspect.signature(test).parameters
        if "cluster" in names:
            raise NotApplicable("NoCluster", "a saved snapshot cannot answer questions to the cluster")
        test(**{name: known[name] for name in names})
    except Exception as raised:  # conclude() makes a result of anything, as in a run
        error = raised
    return conclude(requirement, evidence, error, 0.0, state)


def _keep(evidence: Evidence, kept: list[Finding], findings: Iterable[Finding] | Finding) -> None:
    """Add findings to the evidence, each kept as it comes: what raises in between leaves those before it."""
    for finding in (findings,) if isinstance(findings, Finding) else findings:
        kept.append(finding)
        evidence(finding)
