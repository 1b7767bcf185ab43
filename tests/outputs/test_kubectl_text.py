"""What kubectl prints: tables of pods, claims and slices, objects in whatever is around them, and refusals of the API server."""

import json
from typing import Any

import pytest
import yaml

from conformance.cli.inspect import inspect
from conformance.outputs import kubectl_text
from conformance.outputs.captured_text import Unreadable
from conformance.outputs.inspection import Judged
from fixtures.kubernetes.models import Json
from tests.dra import a_claim, a_device, a_slice
from tests.platforms.dra_clusters import DRA_CLUSTERS
from tests.tables import each_row

POD_HEAD = "NAME              READY   STATUS    RESTARTS        AGE\n"


def row(status: str, ready: str = "1/1", restarts: str = "0") -> str:
    return f"plugin-{len(status)}x   {ready}     {status}   {restarts}   5m\n"


def judged(kind: str, text: str) -> tuple[str, str]:
    result = inspect(kind, text)
    return result.verdict.value, result.reason_code


@each_row
def test_states(line: dict[str, Any], expected: tuple[str, str]) -> None:
    made = row(**line)
    assert judged("pods", POD_HEAD + row("Running") + made) == expected
    assert judged("pods", "$ kubectl get pods -A\nNAMESPACE  " + POD_HEAD + "gpu-operator  " + made) == expected


def test_a_table_inside_other_text_ends_with_it() -> None:
    text = f"Some words\n{POD_HEAD}{row('Running')}\nNAME   AGE\nother-1  1/1  Failed  0\n"
    assert [pod.status for pod in kubectl_text.parse_pods(text)] == ["Running"]


@pytest.mark.parametrize("text", ["", "hello", POD_HEAD, "plugin 1/1 Running 0 5m", "\0"])
def test_no_table_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        kubectl_text.parse_pods(text)


REFUSAL = (
    'The Deployment "model" is invalid: \n'
    '* spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "0.5": must be an integer\n'
    "* spec.template.spec.containers[0].resources.requests: Required value: limit must be set for non overcommitable resources\n"
)


def test_a_refusal_field_by_field() -> None:
    refusal = kubectl_text.parse_refusal(REFUSAL)
    assert (refusal.kind, refusal.name, [cause.what for cause in refusal.causes]) == (
        "Deployment",
        "model",
        ["Invalid value", "Required value"],
    )
    assert judged("api-refusal", REFUSAL) == ("good", "REFUSED")
    one = 'Error from server (Invalid): Pod "p" is invalid: spec.containers[0].image: Required value\n'
    assert judged("api-refusal", one) == ("good", "REFUSED")


def test_a_refusal_without_a_field_proves_nothing() -> None:
    assert judged("api-refusal", 'The Pod "p" is invalid:\n') == ("undecidable", "INCOMPLETE")
    with pytest.raises(Unreadable):
        inspect("api-refusal", "pod/p created\n")


HEAD = "NAME                    STATE                AGE\n"
CLAIMS = f"""$ kubectl get pods,resourceclaims
NAME       READY   STATUS    RESTARTS   AGE
pod/train  1/1     Running   0          9m6s

{HEAD}resourceclaim.resource.k8s.io/train-gpus-26tnm   allocated,reserved   9m6s
"""
SPREAD = """NAMESPACE   NAME     STATE                        AGE
team-a      one      deleted,allocated,reserved   11h
team-a      two      allocated,reserved           11h
team-b      three    pending                      3h
"""
SLICES = """NAME                       NODE     DRIVER                      POOL     AGE
n1-gpu.nvidia.com-cxknf    n1       gpu.nvidia.com              n1       12h
n2-gpu.nvidia.com-x        n2       gpu.nvidia.com              n2       12h
fabric-x                            fabric.example.com          rack-1   2d
"""


@each_row
def test_a_table_of_claims_tells_states_and_no_device(text: str, code: str, facts: Json, words: str) -> None:
    found = inspect("resourceclaim", text)
    assert (found.verdict, found.reason_code) == (Judged.UNDECIDABLE, code)
    assert {**found.facts, **facts} == found.facts
    assert words in found.message


def test_a_table_of_slices_tells_drivers_and_nodes() -> None:
    found = inspect("resourceslice", SLICES)
    assert (found.verdict, found.reason_code) == (Judged.UNDECIDABLE, "TABLE")
    assert found.facts["nodes"] == {"gpu.nvidia.com": ["n1", "n2"], "fabric.example.com": ["several nodes"]}


def items_of(name: str, kind: str) -> list[Json]:
    return [item for item in DRA_CLUSTERS[name]().objects if item["kind"] == kind]


@pytest.mark.parametrize("name", DRA_CLUSTERS)
def test_slices_and_claims_of_healthy_clusters_are_good(name: str) -> None:
    for kind in ("ResourceSlice", "ResourceClaim"):
        items = [item for item in items_of(name, kind) if kind == "ResourceSlice" or item["status"]]
        found = inspect(kind.lower(), yaml.safe_dump_all(items))
        assert found.verdict is Judged.GOOD, found.message


ONE = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **a_slice("gpu-0")}
BARE = {key: value for key, value in ONE.items() if key not in ("apiVersion", "kind")}
OLD: Json = {**ONE, "apiVersion": "resource.k8s.io/v1beta1", "spec": {**ONE["spec"], "devices": [{"name": "d", "basic": {}}]}}
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}


@pytest.mark.parametrize("text", [
    yaml.safe_dump(ONE),
    yaml.safe_dump(OLD),
    yaml.safe_dump(ONE).replace("\n", "\r\n"),
    yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [OTHER, ONE]}),
    json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": [BARE]}),  # kubectl get --raw
    json.dumps([ONE]),
    yaml.safe_dump_all([OTHER, ONE]) + "---\n# nothing\n",
    f"I see this:\n```console\n$ kubectl get resourceslice -o yaml\n{yaml.safe_dump(ONE)}```\nThanks: for nothing\n",
])  # fmt: skip
def test_a_slice_is_found_in_whatever_is_around_it(text: str) -> None:
    found = inspect("resourceslice", text)
    assert (found.verdict, found.facts["slices"]) == (Judged.GOOD, 1), found.message


@pytest.mark.parametrize(("text", "words"), [
    ("", "the text is empty"),
    ("\n\n", "the text is empty"),
    ("No resources found in team-a namespace.\n", "kubectl says: No resources found in team-a namespace."),
    ("null", "neither a JSON nor a YAML object"),
    ("Name: x\nAPI Version: resource.k8s.io/v1\nKind: ResourceSlice\n", "kubectl describe leaves out what is read here"),
    (json.dumps(ONE)[:200], "malformed JSON"),
])  # fmt: skip
def test_what_cannot_be_read_is_reported_in_words(text: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        inspect("resourceslice", text)


def verdict_of(*slices: Json) -> tuple[Judged, str, str]:
    found = inspect(
        "resourceslice", yaml.safe_dump_all([{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", **item} for item in slices])
    )
    return found.verdict, found.reason_code, found.message


def a_part(name: str, **more: Any) -> Json:
    return {"name": name, "attributes": {"type": {"string": "mig"}, "parentUUID": {"string": "GPU-whole"}}, **more}


def test_slices_that_disagree_on_their_number_are_no_pool() -> None:
    first, second = a_slice("n", devices=[a_device("a")], name="x"), a_slice("n", devices=[a_device("b")], name="y", slices=2)
    assert verdict_of(first, second)[:2] == (Judged.BAD, "INCOMPLETE_POOL")
    assert "which say that there are 1 and 2" in verdict_of(first, second)[2]


@pytest.mark.parametrize(("counters", "verdict"), [({}, Judged.BAD), ({"consumesCounters": [{"counterSet": "gpu-0"}]}, Judged.GOOD)])
def test_a_whole_device_beside_its_parts_is_given_twice(counters: Json, verdict: Judged) -> None:
    found = verdict_of(a_slice("n", devices=[{**a_device("whole"), **counters}, a_part("mig-0", **counters)]))
    assert found[0] is verdict
    assert (verdict is Judged.BAD) is ("device whole is published beside its own parts (mig-0)" in found[2])


def test_a_device_that_its_driver_calls_not_ready_is_reported() -> None:
    condition = {"type": "Ready", "status": "False", "reason": "LinkDown", "message": "no carrier"}
    status: Json = {
        "allocation": {"devices": {"results": [{"request": "r", "driver": "dra.net", "pool": "n", "device": "eth1"}]}},
        "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}],
        "devices": [{"driver": "dra.net", "pool": "n", "device": "eth1", "conditions": [condition]}],
    }
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "a"}, "status": status}
    found = inspect("resourceclaim", yaml.safe_dump(claim))
    assert (found.verdict, found.reason_code) == (Judged.BAD, "DEVICE_NOT_READY")
    assert found.message == "a/c: its driver calls the device dra.net/n/eth1 not ready: LinkDown no carrier"


def text_of(*claims: Json) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": [{"kind": "ResourceClaim", **claim} for claim in claims]})


def held(name: str, device: str = "gpu-0", **result: Any) -> Json:
    claim = a_claim(name, device=device, **result)
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": name, "uid": f"uid-{name}"}]
    return claim


def left_over() -> Json:
    claim = held("a")
    return {**claim, "metadata": {**claim["metadata"], "deletionTimestamp": "2026-11-21T01:00:00Z"}}


@each_row
def test_claims_are_judged_by_what_they_say(claims: list[Json], verdict: str, code: str) -> None:
    found = inspect("resourceclaim", text_of(*claims))
    assert (found.verdict, found.reason_code) == (verdict, code)


def test_text_without_a_claim_is_unreadable() -> None:
    with pytest.raises(Unreadable):
        inspect("resourceclaim", json.dumps({"kind": "ResourceSlice", "spec": {}}))
