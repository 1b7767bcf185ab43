"""Devices that are held and do nothing. Reports: odh-manifests#265, DCGM#241, job_defense_shield#2."""

import re
from functools import partial
from types import SimpleNamespace
from typing import Any

from conformance.obs.idle import check_idle
from conformance.obs.page import read_page
from conformance.obs.scraping import Scrape
from conformance.outputs.dcgm import Sample
from fixtures.model.platform.exporters import Exporter, kinds
from fixtures.verdict.findings import Finding, Outcome
from tests.builders import a_node, a_pod, a_policy, a_scope
from tests.obs.test_owners import labelled
from tests.obs.test_pages import later, page, uuid
from tests.tables import each_row

DAY = 86_400.0


def judged(*, hours: float, activity: float = 0.0, used: int = 4, ask: Any = None, form: Any = str) -> Finding:
    """A pod that has held GPU 0 for some hours, which shows an activity and memory in use now."""
    text = re.sub(r'^(DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu="0".*}).*', rf"\g<1> {activity}", labelled(page(), 0), flags=re.MULTILINE)
    text = re.sub(r'^(DCGM_FI_DEV_FB_USED{gpu="0".*}).*', rf"\g<1> {used}", text, flags=re.MULTILINE)
    started = f"2026-09-{21 - int(hours // 24):02d}T{13 - int(hours % 24):02d}:33:20Z"  # snapshots of tests are of 2026-09-21 13:33:20
    pod = a_pod("train-0", devices=1, node="gpu-0", status={"startTime": started})
    scope = a_scope(a_policy(metrics={"idleHours": 24}), nodes=[a_node("gpu-0")], pods=[pod])
    one = Scrape(exporter=Exporter(node="gpu-0", pod=a_pod("dcgm", "gpu-operator"), kind=kinds()[0]), at=0.0, page=read_page(form(text)))
    (finding,) = check_idle(scope, SimpleNamespace(pages=lambda: {"gpu-0": one}), ask)  # type: ignore[arg-type]
    return finding


def prometheus(most: float, seconds: float) -> Any:
    """What a Prometheus knows of GPU 0."""

    def ask(query: str) -> list[Sample]:
        value = seconds if query.startswith("time()") else most
        return [Sample("", {"UUID": uuid(0)}, value)] if "GR_ENGINE" in query else []

    return ask


@each_row
def test_idleness_needs_a_history_or_a_device_that_nobody_opened(seen: dict[str, Any], outcome: Outcome) -> None:
    finding = judged(**seen)
    assert finding.outcome is outcome, finding
    assert outcome is not Outcome.BAD or uuid(0) in finding.message


def test_a_history_is_asked_for_by_both_names_and_in_the_unit_of_each() -> None:
    def ask(query: str, name: str, most: float) -> list[Sample]:
        value = 86_400.0 if query.startswith("time()") else most
        return [Sample("", {"UUID": uuid(0)}, value)] if name in re.findall(r"\w+", query) else []

    for name, most in (("DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO", 0.4), ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.4), ("DCGM_FI_DEV_GPU_UTIL", 40)):
        assert judged(hours=72, form=later, ask=partial(ask, name=name, most=most)).outcome is Outcome.OK
        assert judged(hours=72, form=later, ask=partial(ask, name=name, most=0.0)).outcome is Outcome.BAD
    assert judged(hours=72, form=later, ask=partial(ask, name="DCGM_FI_DEV_GPU_UTIL_RATIO", most=0.004)).outcome is Outcome.BAD


def test_work_and_memory_are_known_by_the_new_names() -> None:
    assert judged(hours=72, form=later).outcome is Outcome.UNDECIDED
    assert judged(hours=72, form=later, activity=0.4).outcome is Outcome.OK
    assert judged(hours=72, form=later, used=40_000).outcome is Outcome.NOT_JUDGED
