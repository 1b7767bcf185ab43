import shlex
import subprocess
from collections.abc import Iterable

import pytest

from fixtures.verdict.record import FindingCause, Remedy, SubjectResult, Verdict
from reports import remedies
from tests.reports.sample_report import report, subject
from tests.tables import each_row, table

TABLE = table(__file__)
HOSTILE_NAMES: list[str] = TABLE["HOSTILE_NAMES"]


def lines(command: str, *subjects: SubjectResult, version: str = "v1.36.2") -> list[str]:
    made = report([])
    made.target.kubernetes_version = version
    return [line for one in remedies.of_cause(made, cause(command), wrong(subjects)) for line in one.lines]


def cause(command: str) -> FindingCause:
    return FindingCause(code="Odd", title="It is odd", remedy=Remedy.LOOK, advice="Look at it.", look=[command])


def wrong(subjects: Iterable[SubjectResult]) -> list[SubjectResult]:
    return [one for one in subjects if one.verdict is Verdict.FAILED]


def bad(name: str, kind: str = "Node", namespace: str = "") -> SubjectResult:
    return subject(name, Verdict.FAILED, kind=kind, namespace=namespace)


def test_a_command_that_takes_one_object_is_written_for_each() -> None:
    pods = [bad("train-0", "Pod", "team-a"), bad("train-1", "Pod", "team-b")]
    assert lines("kubectl -n NAMESPACE describe pod POD", *pods, bad("gpu-0")) == [
        "kubectl -n team-a describe pod train-0",
        "kubectl -n team-b describe pod train-1",
    ]
    assert lines("gpu-conformance show pod NAMESPACE/POD --kubeconfig FILE", *pods) == [
        "gpu-conformance show pod team-a/train-0 --kubeconfig FILE",
        "gpu-conformance show pod team-b/train-1 --kubeconfig FILE",
    ]
    assert lines("gpu-conformance show node NODE --kubeconfig FILE", bad("gpu-0"), bad("gpu-1")) == [
        "gpu-conformance show node gpu-0 --kubeconfig FILE",
        "gpu-conformance show node gpu-1 --kubeconfig FILE",
    ]
    assert lines("kubectl delete pod --field-selector spec.nodeName=NODE", bad("gpu-0"), bad("gpu-1")) == [
        "kubectl delete pod --field-selector spec.nodeName=gpu-0",
        "kubectl delete pod --field-selector spec.nodeName=gpu-1",
    ]


def test_kinds_namespaces_agents_and_versions_are_filled_in() -> None:
    assert lines(
        "kubectl -n NAMESPACE edit KIND NAME", bad("web", "Deployment", "team-a"), bad("llm spec.tasks[w]", "VolcanoJob", "b")
    ) == [
        "kubectl -n team-a edit deployment web",
        "kubectl -n b edit vcjob llm",
    ]
    assert lines("kubectl label namespace NAMESPACE a/version=v1.NN", bad("team-a", "Namespace"), version="v1.37.2+k3s1") == [
        "kubectl label namespace team-a a/version=v1.37"
    ]
    assert lines("kubectl describe node NODE", bad("exporter on gpu-3", "Agent", "gpu-operator")) == ["kubectl describe node gpu-3"]
    assert lines("kubectl label namespace NAMESPACE a/version=v1.NN", bad("team-a", "Namespace"), version="?") == [
        "kubectl label namespace team-a a/version=v1.NN"
    ]


def test_a_command_about_a_kind_names_objects_of_that_kind_alone() -> None:
    subjects = [bad("plugin", "DaemonSet", "gpu-operator"), bad("gpu-0"), bad("web", "Deployment", "team-a")]
    assert lines("kubectl -n NAMESPACE rollout status ds/NAME", *subjects) == ["kubectl -n gpu-operator rollout status ds/plugin"]
    assert lines("kubectl delete resourceslice NAME", *subjects) == []
    assert lines("kubectl get KIND NAME", bad("exporter", "Agent", "a"), bad("guarantees of nvidia.com/gpu", "Queue")) == []


def test_an_object_without_a_namespace_is_reached_without_one() -> None:
    queues = [bad("team-a", "ClusterQueue"), bad("local", "LocalQueue", "team-a"), bad("research", "Queue")]
    assert lines("kubectl -n NAMESPACE describe KIND NAME", *queues) == [
        "kubectl -n team-a describe localqueue local",
        "kubectl describe clusterqueue team-a",
        "kubectl describe queue.scheduling.volcano.sh research",
    ]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_what_is_no_name_of_kubernetes_gets_into_no_command(name: str) -> None:
    node = lines("kubectl cordon NODE", bad(name), bad("gpu-1"))
    assert "gpu-1" in shlex.split(node[0])
    assert all(word.isascii() and word.replace("-", "").isalnum() for word in shlex.split(node[0]))
    assert lines("kubectl -n NAMESPACE get pod POD", bad("fine", "Pod", name)) == []
    assert lines("kubectl get KIND NAME", bad("fine", name)) == []


def test_commands_do_what_they_say_in_a_shell() -> None:
    """A shell is the judge of quoting: each word arrives as it was meant, and nothing else runs."""
    made = lines("kubectl taint nodes NODE nvidia.com/gpu=present:NoSchedule", *(bad(name) for name in [*HOSTILE_NAMES, "gpu-0.a:b_c"]))
    script = "kubectl() { printf '%s\\n' \"$@\"; }\n" + "\n".join(made)
    ran = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[:2] == ["taint", "nodes"]
    assert ran.stdout.splitlines()[-1] == "nvidia.com/gpu=present:NoSchedule"
    assert "gpu-0.a:b_c" in ran.stdout.splitlines()
    assert "pwned" not in ran.stdout


@each_row
def test_only_one_plain_command_of_kubectl_is_offered(template: str) -> None:
    assert lines(template, bad("gpu-0")) == []


def test_many_subjects_make_few_commands_and_say_how_many_are_left() -> None:
    [one] = remedies.of_cause(report([]), cause("kubectl cordon NODE"), [bad(f"n{i}") for i in range(500)])
    assert len(one.lines) == remedies.MAX_COMMANDS
    assert one.more == 500 - remedies.MAX_COMMANDS * remedies.MAX_NAMES


def test_prose_and_commands_are_reported_apart() -> None:
    assert remedies.parts("Run `kubectl get nodes`, then look.") == [("Run ", False), ("kubectl get nodes", True), (", then look.", False)]
    assert remedies.parts("odd ` backtick") == [("odd ` backtick", False)]
    assert remedies.parts("") == []
