"""OBS: metrics and events."""

from collections.abc import Mapping

import pytest

from conformance.obs.alert_rules import check_rules
from conformance.obs.attribution import probe_attribution, probe_owners
from conformance.obs.flaws import Bracket
from conformance.obs.idle import check_idle, prometheus_of
from conformance.obs.measured import BRACKETS, bracketed, check_measured, check_moving
from conformance.obs.node_words import check_node_words
from conformance.obs.probes import probe_unplaced
from conformance.obs.scraped import check_scraped, check_served
from conformance.obs.scraping import AskedScraper, Scraper
from conformance.requirement import Asks, requirement
from fixtures.cluster.client import Cluster
from fixtures.model.cluster import Scope
from fixtures.model.nodes.work import maybe_held
from fixtures.probes.workspace import Workspace
from fixtures.snapshot.managed_fields import ReadFields
from fixtures.verdict.findings import Evidence


@pytest.fixture
def scraper(asks: Asks, scope: Scope, request: pytest.FixtureRequest) -> Scraper:
    """The exporters of the cluster, each asked once."""
    return AskedScraper(scope, asks, lambda: request.getfixturevalue("once")(Scraper))


@requirement("OBS-01")
def test_the_exporter_of_every_accelerator_node_measures_each_device(
    judge: Evidence, scope: Scope, scraper: Scraper, asks: Asks, request: pytest.FixtureRequest
) -> None:
    """The metrics exporter of every accelerator node measures each of its devices."""
    documents, read = request.getfixturevalue("documents_too"), request.getfixturevalue("read_documents")

    def ask(_: Cluster) -> Mapping[str, Bracket]:
        return bracketed(scope, scraper, documents, read)

    brackets = asks("pages of exporters around documents of drivers", ask, BRACKETS) if documents.by_node else {}
    judge(check_measured(scope, scraper, brackets))


@requirement("OBS-02", devices=1, once={"scraper": Scraper})
def test_while_a_pod_holds_a_device_its_metrics_name_the_pod(judge: Evidence, scope: Scope, workspace: Workspace, scraper: Scraper) -> None:
    """While a pod holds a device, its metrics name the pod, and nobody after its end."""
    judge(probe_attribution(scope, workspace, scraper))


@requirement("OBS-03")
def test_what_the_exporter_serves_is_of_now(judge: Evidence, scope: Scope, scraper: Scraper) -> None:
    """What the metrics exporter serves is of now."""
    judge(check_moving(scope, scraper))


@requirement("OBS-04")
def test_no_device_is_allocated_and_idle_for_long(judge: Evidence, scope: Scope, scraper: Scraper, asks: Asks) -> None:
    """No device is allocated and idle for long."""
    place = scope.policy.metrics.prometheus
    judge(check_idle(scope, scraper, prometheus_of(asks, place) if place else None))


@requirement("OBS-05")
def test_something_scrapes_the_metrics_exporters(judge: Evidence, scope: Scope) -> None:
    """Something scrapes the metrics exporters."""
    judge(check_scraped(scope))


@requirement("OBS-06", devices=1)
def test_a_device_pod_that_cannot_be_placed_gets_an_event(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A device pod that cannot be placed gets a FailedScheduling event that names the reason."""
    judge(probe_unplaced(scope, workspace))


@requirement("OBS-07")
def test_autoscalers_that_go_by_custom_metrics_get_them(judge: Evidence, scope: Scope) -> None:
    """Autoscalers that go by custom metrics get them."""
    judge(check_served(scope))


@requirement("OBS-08")
def test_alert_rules_fire_on_what_takes_devices_away(judge: Evidence, scope: Scope, scraper: Scraper) -> None:
    """Alert rules fire on what takes devices away, and each names series that are served."""
    judge(check_rules(scope, scraper))


@requirement("OBS-09", devices=0, holders=1, once={"scraper": Scraper})
def test_exporter_kubelet_claims_and_pods_name_one_owner(judge: Evidence, scope: Scope, workspace: Workspace, scraper: Scraper) -> None:
    """Exporter, kubelet, claims and pods name the same owner for each device."""
    judge(probe_owners(scope, workspace, scraper))


@requirement("OBS-10")
def test_what_the_platform_says_of_its_nodes_is_received(judge: Evidence, scope: Scope, node_fields: ReadFields) -> None:
    """No condition or label of an accelerator node reports a fault."""
    judge(check_node_words(scope, node_fields(maybe_held(scope))))
