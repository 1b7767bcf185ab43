"""PLAT-04: what an API server says of its etcd."""

import math

import msgspec
import pytest

from conformance.outputs.dcgm import Sample
from conformance.plat.checks import buckets_of, check_storage, read_checks
from conformance.probes.server_metrics import ETCD, ServerMetrics, parse
from fixtures.cluster.answer import Answer
from fixtures.cluster.client import Cluster
from fixtures.cluster.trouble import ApiTrouble
from fixtures.verdict.subjects import Inconclusive
from tests.builders import a_policy
from tests.tables import each_row

PAGE = """\
apiserver_request_total{verb="GET"} 1
etcd_request_duration_seconds_bucket{group="",operation="get",resource="pods",le="0.005"} 900
etcd_request_duration_seconds_bucket{group="",operation="get",resource="pods",le="+Inf"} 1000
etcd_request_duration_seconds_bucket{operation="list",type="*core.Pod",le="0.005"} 1e+03
etcd_request_duration_seconds_bucket{operation="list",type="*core.Pod",le="+Inf"} 1001
etcd_request_duration_seconds_sum{operation="list",type="*core.Pod"} 7
apiserver_request_duration_seconds_bucket{le="0.005"} 5
etcd_request_duration_seconds_bucket{operation="list",le="no number"} 5
"""


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """Checks, buckets by their upper bound, and what is found: the checks' outcome, then that of the requests."""

    found: list[str]
    checks: dict[str, bool] = {}
    buckets: dict[str, float] = {}
    trouble: str = ""
    seconds: float = 0.6


class Said(Cluster):
    """A cluster whose readiness is an answer, or what went wrong."""

    def __init__(self, answer: Answer | ApiTrouble) -> None:
        self._answer = answer

    def request(self, *_: object, **__: object) -> Answer:
        if isinstance(self._answer, ApiTrouble):
            raise self._answer
        return self._answer


@each_row
def test_what_the_api_server_says(row: Row) -> None:
    samples = [Sample(ETCD, {"le": bound}, number) for bound, number in row.buckets.items()]
    metrics = ServerMetrics(samples=samples, trouble=row.trouble, code="RightMissing" if row.trouble else "")
    findings = check_storage(row.checks, metrics, a_policy(operators={"etcdSeconds": row.seconds}))
    assert [one.cause or one.outcome.value for one in findings] == row.found


def test_buckets_are_added_whatever_they_are_about() -> None:
    assert buckets_of(parse(PAGE)) == {0.005: 1900, math.inf: 2001}


def test_failed_checks_are_read_from_the_error_that_they_make() -> None:
    failed = ApiTrouble("InternalError", "GET /readyz: 500 [+]ping ok [-]etcd failed: reason withheld [+]etcd-readiness ok")
    assert read_checks(Said(failed)) == {"etcd": False, "etcd-readiness": True}


def test_another_error_is_not_one_of_etcd() -> None:
    with pytest.raises(ApiTrouble):
        read_checks(Said(ApiTrouble("Timeout", "GET /readyz: no answer within 60 s")))


def test_without_the_right_nothing_is_known() -> None:
    with pytest.raises(Inconclusive):
        read_checks(Said(Answer(status=403, body=b"forbidden")))
