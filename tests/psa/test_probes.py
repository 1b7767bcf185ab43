import msgspec
import pytest

from conformance.probes.running import ProbeResult, pinned_pod
from conformance.psa.probes import Dryrun, judge_nonroot, judge_refusal, root_pod
from fixtures.cluster.client import Answer
from fixtures.kubernetes.podsecurity import Level, LevelVersion, evaluate
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Subject
from tests.builders import a_node, a_scope
from tests.tables import each_row

RESTRICTED = LevelVersion(Level.RESTRICTED)
COMPLIANT = pinned_pod(a_scope(), a_node(), "p", "id -u", resources={"nvidia.com/gpu": 1})
VIOLATIONS = evaluate(root_pod(COMPLIANT)["spec"], {}, Level.RESTRICTED)
REASONS = tuple(violation.reason for violation in VIOLATIONS)
OK = Answer(status=201, body=b"{}")


def refusal(text: str, status: int = 403) -> Answer:
    return Answer(status=status, body=msgspec.json.encode({"kind": "Status", "reason": "Forbidden", "message": text}))


def text_of(reasons: tuple[str, ...], level: str = "restricted:latest") -> str:
    return f'pods "psa-03-root" is forbidden: violates PodSecurity "{level}": ' + ", ".join(f"{reason} (detail)" for reason in reasons)


def seen(refused: Answer, control: Answer = OK, *, own: bool = True) -> Dryrun:
    return Dryrun(namespace="ns", enforced=RESTRICTED, predicted=REASONS, refused=refused, control=control, own=own)


def test_the_root_pod_violates_much_and_the_compliant_one_nothing() -> None:
    assert {"privileged", "host namespaces", "runAsUser=0", "runAsNonRoot != true", "seccompProfile"} <= set(REASONS)
    assert evaluate(COMPLIANT["spec"], {}, Level.RESTRICTED) == []


def test_a_refusal_for_the_predicted_reasons_beside_an_accepted_control_conforms() -> None:
    assert judge_refusal(seen(refusal(text_of(REASONS)))).outcome is Outcome.OK
    assert judge_refusal(seen(refusal(text_of(REASONS[::-1])))).outcome is Outcome.OK  # order is the server's own


@each_row
def test_a_refusal_by_others_proves_nothing(answer: Answer) -> None:
    assert judge_refusal(seen(answer)).outcome is Outcome.UNDECIDED


@pytest.mark.parametrize("reasons", [REASONS[1:], (*REASONS, "hostPort"), ("something new",)])
def test_other_reasons_than_predicted_are_not_the_standards_own(reasons: tuple[str, ...]) -> None:
    finding = judge_refusal(seen(refusal(text_of(reasons))))
    assert finding.outcome is Outcome.BAD
    assert "not the Pod Security Standards' own" in finding.message


def test_another_level_than_the_label_is_bad() -> None:
    assert judge_refusal(seen(refusal(text_of(REASONS, "baseline:latest")))).outcome is Outcome.BAD


def test_the_control_must_be_accepted_without_a_warning() -> None:
    refused = refusal(text_of(REASONS))
    warned = Answer(status=201, body=b"{}", warnings=('would violate PodSecurity "restricted:latest": seccompProfile',))
    assert judge_refusal(seen(refused, warned)).outcome is Outcome.BAD
    assert judge_refusal(seen(refused, refused)).outcome is Outcome.BAD
    other = Answer(status=201, body=b"{}", warnings=("spec.x: deprecated",))
    assert judge_refusal(seen(refused, other)).outcome is Outcome.OK


def test_a_control_refused_by_a_quota_is_inconclusive_in_the_runs_own_namespace_only() -> None:
    refused, quota = refusal(text_of(REASONS)), refusal('pods "p" is forbidden: exceeded quota: q')
    assert judge_refusal(seen(refused, quota)).outcome is Outcome.UNDECIDED
    assert judge_refusal(seen(refused, quota, own=False)).outcome is Outcome.OK


# -- PSA-04 --

GPU_LINE = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-8a0cb40d-f2e8-2199-64b0-33126c728d06)"


def ran(uid: str = "1000", smi: str = GPU_LINE, *, trouble: str = "") -> ProbeResult:
    text = f"## uid\n{uid}\n## smi\n{smi}\n## dev\nnull\n## end\n"
    return ProbeResult(subject=Subject("Pod", "psa-04-0", "ns"), node="gpu-0", logs={"probe": text}, trouble=trouble)


@each_row
def test_root_another_user_or_no_device_does_not(uid: str, smi: str) -> None:
    assert judge_nonroot(ran(uid, smi), "nvidia.com/gpu", 1000).outcome is Outcome.BAD


def test_a_pod_that_did_not_run_is_undecided() -> None:
    finding = judge_nonroot(ran(trouble="Pending; Unschedulable: 0/3 nodes are available"), "nvidia.com/gpu", 1000)
    assert finding.outcome is Outcome.UNDECIDED
    assert "0/3 nodes" in finding.message


@pytest.mark.parametrize("text", ["", "\0", "## uid\n1000\n", "## end\n## uid\n", "## uid\n1\n## uid\n2\n## smi\n## dev\n## end"])
def test_output_that_is_cut_or_forged_is_undecided(text: str) -> None:
    pod = ProbeResult(subject=Subject("Pod", "p", "ns"), node="n", logs={"probe": text})
    assert judge_nonroot(pod, "nvidia.com/gpu", 1000).outcome is Outcome.UNDECIDED


def test_an_image_that_cannot_start_nvidia_smi_is_reported_from_a_device_that_is_not_there() -> None:
    text = "## uid\n1000\n## smi\nsh: 1: nvidia-smi: not found\nexit=127\n## dev\n{}null\n## end\n"
    pods = [
        ProbeResult(subject=Subject("Pod", "p", "ns"), node="n", logs={"probe": text.format(dev)}) for dev in ("nvidia0\nnvidiactl\n", "")
    ]
    assert [judge_nonroot(pod, "nvidia.com/gpu", 1000).outcome for pod in pods] == [Outcome.UNDECIDED, Outcome.BAD]
