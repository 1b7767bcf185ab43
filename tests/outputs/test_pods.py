"""Tables of pods, and refusals of the API server."""

from typing import Any

import pytest

from conformance.cli.inspect import inspect
from conformance.outputs import kubectl_text
from conformance.outputs.captured_text import Unreadable
from tests.tables import each_row

HEAD = "NAME              READY   STATUS    RESTARTS        AGE\n"


def row(status: str, ready: str = "1/1", restarts: str = "0") -> str:
    return f"plugin-{len(status)}x   {ready}     {status}   {restarts}   5m\n"


def judged(kind: str, text: str) -> tuple[str, str]:
    result = inspect(kind, text)
    return result.verdict.value, result.reason_code


@each_row
def test_states(line: dict[str, Any], expected: tuple[str, str]) -> None:
    made = row(**line)
    assert judged("pods", HEAD + row("Running") + made) == expected
    assert judged("pods", "$ kubectl get pods -A\nNAMESPACE  " + HEAD + "gpu-operator  " + made) == expected


def test_a_table_inside_other_text_ends_with_it() -> None:
    text = f"Some words\n{HEAD}{row('Running')}\nNAME   AGE\nother-1  1/1  Failed  0\n"
    assert [pod.status for pod in kubectl_text.parse_pods(text)] == ["Running"]


@pytest.mark.parametrize("text", ["", "hello", HEAD, "plugin 1/1 Running 0 5m", "\0"])
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
