"""What needs attention stands by cause: said once, with what to do about that cause and nothing else."""

import msgspec
import pytest

from fixtures.verdict.record import Change, FindingCause, Remedy, Report, Result, SubjectResult, Verdict
from reports.causes import found_causes
from reports.formats import html, markdown
from reports.terminal.summary import summary
from tests.reports.sample_report import report, result, subject

LOST = FindingCause(
    code="NodeNotReady", title="A node is not Ready", remedy=Remedy.LOOK, advice="Look at the kubelet.", look=["kubectl describe node NODE"]
)
SHORT = FindingCause(
    code="DeviceMissing",
    title="A node offers fewer devices than it has",
    remedy=Remedy.ACT,
    advice="Find the device that is missing.",
    look=["kubectl get node NODE -o yaml"],
    changes=[Change(run="kubectl cordon NODE", does="keeps new pods off the node")],
    symptom_of=["NodeNotReady"],
)
RIGHT = FindingCause(code="RightMissing", title="The account lacks a right", remedy=Remedy.ASK, advice="Have a role bound to it.")


def bad(name: str, cause: str, *, kind: str = "Node", message: str = "") -> SubjectResult:
    return subject(name, Verdict.FAILED, kind=kind, cause=cause, message=message or f"{name} is short")


def of(*results: Result) -> Report:
    made = report(list(results), verdict=Verdict.FAILED, exit_code=1)
    made.causes = [LOST, SHORT, RIGHT]
    return made


def failed(id_: str, *subjects: SubjectResult) -> Result:
    return result(id_, Verdict.FAILED, list(subjects))


def test_a_fault_that_three_requirements_show_is_one_cause_with_its_symptoms() -> None:
    made = of(*(failed(id_, bad("gpu-1", "DeviceMissing", message=f"seen by {id_}")) for id_ in ("INV-05", "ADV-02", "ADV-03")))
    [one] = found_causes(made)
    assert (one.title, [r.id for r in one.requirements], one.verdict) == (SHORT.title, ["INV-05", "ADV-02", "ADV-03"], Verdict.FAILED)
    assert [line for command in one.commands for line in command.lines] == ["kubectl get node gpu-1 -o yaml", "kubectl cordon gpu-1"]


def test_a_symptom_stands_under_the_cause_that_explains_it_on_the_same_object() -> None:
    made = of(
        failed("ADV-03", bad("gpu-1 nvidia.com/gpu", "DeviceMissing"), bad("gpu-2", "DeviceMissing")),
        failed("INV-02", bad("gpu-1", "NodeNotReady")),
    )
    lost, short = found_causes(made)
    assert (lost.cause, [s.name for s in lost.subjects]) == (LOST, ["gpu-1 nvidia.com/gpu", "gpu-1"])
    assert (short.cause, [s.name for s in short.subjects]) == (SHORT, ["gpu-2"])
    assert "cordon" not in str(lost.commands), "what is done about a symptom alone does not mend its cause"


def test_symptoms_in_a_circle_come_to_an_end() -> None:
    made = of(failed("A-01", bad("gpu-1", "NodeNotReady"), bad("gpu-1", "DeviceMissing")))
    made.causes = [
        FindingCause(**{name: getattr(LOST, name) for name in LOST.__struct_fields__} | {"symptom_of": ["DeviceMissing"]}),
        SHORT,
    ]
    assert sum(len(one.symptoms) for one in found_causes(made)) == 2


@pytest.mark.parametrize("view", ["terminal", "page", "markdown"])
def test_a_right_that_is_missing_is_reported_once(view: str) -> None:
    message = "pods could not be listed: 403 Forbidden"
    rows = [result(f"REQ-{n:02}", Verdict.INCONCLUSIVE, message=message, cause="RightMissing", remediation=RIGHT.text) for n in range(63)]
    made = of(*rows)
    if view == "terminal":
        text = summary(made, width=200, colour=False, report_path="r")
    elif view == "markdown":
        text = markdown.render(made)
    else:
        text = html.render(made)
        text = text[text.index('id="attention"') : text.index("</section>", text.index('id="attention"'))]
    assert text.count("403 Forbidden") == 1
    assert text.count(RIGHT.advice) == 1
    assert "more" in text, "requirements beyond those named are counted"


@pytest.mark.parametrize("width", [80, 200])
def test_a_command_that_changes_the_cluster_is_marked_and_comes_last(width: int) -> None:
    text = summary(of(failed("ADV-03", bad("gpu-1", "DeviceMissing"))), width=width, colour=False, report_path="r")
    reads, warns, changes = (text.index(words) for words in ("$ kubectl get node", "This changes the cluster", "$ kubectl cordon gpu-1"))
    assert reads < warns < changes
    page = html.render(of(failed("ADV-03", bad("gpu-1", "DeviceMissing"))))
    assert page.index("Read first") < page.index("This changes the cluster") < page.index("kubectl cordon gpu-1")


def test_the_one_pod_of_a_cause_stands_under_its_controller_in_text_too() -> None:
    pod = msgspec.structs.replace(bad("train-0", "RightMissing", kind="Pod"), namespace="team-a", owner="Job/train")
    for made, shown in ((of(failed("REQ-01", pod)), True), (of(failed("REQ-01", msgspec.structs.replace(pod, owner=""))), False)):
        words = "In namespace team-a (1: Job/train)"
        assert (words in summary(made, width=200, colour=False, report_path="r")) is shown
        assert (words in markdown.render(made).replace("&#58;", ":")) is shown


def test_a_waived_failure_gets_no_advice() -> None:
    made = of(result("ADV-03", Verdict.WAIVED, [subject("gpu-1", Verdict.WAIVED, kind="Node", cause="DeviceMissing")], message="waived"))
    [one] = found_causes(made)
    assert (one.advice, one.commands) == ("", [])


def test_a_warning_of_a_should_is_no_failure() -> None:
    [one] = found_causes(of(result("INV-05", Verdict.WARNED, [bad("gpu-1", "DeviceMissing")])))
    assert one.verdict is Verdict.WARNED
