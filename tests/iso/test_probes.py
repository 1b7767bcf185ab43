"""ISO: probe pods that claim devices, and what devices compute."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from conformance.dra.exclusive_claims import probe_exclusive
from conformance.fence.probes import probe_devices
from conformance.iso.probes import judge_computing, judge_holder, judge_sample, probe_bypass, probe_disjoint, probe_holders
from conformance.probes.running import ProbeResult
from conformance.psa.probes import probe_nonroot, probe_refusal
from conformance.req.amount_probes import ask_amounts, ask_quota, counted_resource, judge_amounts, judge_quota
from fixtures.cluster.client import Cluster
from fixtures.compute.document import Device, Document, Library, Status, Step, Trouble, WrongValues, encode
from fixtures.model.cluster import Scope
from fixtures.model.dra.slices import CLAIMS, CLASSES, SLICES, TEMPLATES
from fixtures.ownership.owned import RUN_LABEL
from fixtures.policy.model import Policy
from fixtures.probes.workspace import Workspace
from fixtures.simulator.process.child import EmbeddedCluster
from fixtures.snapshot.collect import collect
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Subject
from tests.samples import sample
from tests.tables import each_row

PACE = {"probes": {"windowSeconds": 0.5, "startSeconds": 20.0}}
RUN = "claims"


@pytest.fixture(scope="module", params=["dra", "dra-extended"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Scope, Workspace]]:
    embedded = EmbeddedCluster.start(request.param, tmp_path_factory.mktemp("embedded"))
    try:
        cluster = Cluster.from_kubeconfig(Path(embedded.kubeconfig))
        snapshot = collect(cluster, ["nodes", "pods", "namespaces", SLICES, CLASSES, CLAIMS, TEMPLATES], version=cluster.probe())
        workspace = Workspace(cluster, RUN)
        yield Scope(snapshot, msgspec.convert({**embedded.policy, **PACE}, Policy)), workspace
        workspace.close()
        assert workspace.residue == []
    finally:
        embedded.stop()


def outcomes(findings: Iterator[Finding]) -> set[Outcome]:
    found = list(findings)
    assert any(finding.outcome is Outcome.OK for finding in found)
    return {finding.outcome for finding in found}


@pytest.mark.parametrize(
    "probe", [probe_devices, probe_holders, probe_bypass, probe_disjoint, probe_nonroot, probe_refusal, probe_exclusive]
)
def test_a_claimed_device_is_judged_like_any_other(target: tuple[Scope, Workspace], probe: object) -> None:
    scope, workspace = target
    assert outcomes(probe(scope, workspace)) <= {Outcome.OK, Outcome.NOT_JUDGED}  # type: ignore[operator]
    workspace.clear()
    for key in (TEMPLATES, CLAIMS):
        answer = workspace.cluster.request("GET", workspace.cluster.path(key), query={"labelSelector": f"{RUN_LABEL}={RUN}"})
        assert answer.json()["items"] == []
    assert workspace.residue == []


def test_a_quota_on_claimed_devices_is_enforced(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    seen = ask_quota(workspace, scope)
    assert seen.resource in ("nvidia.com/gpu", "deviceclass.resource.kubernetes.io/gpu.nvidia.com")
    assert outcomes(judge_quota(seen)) == {Outcome.OK}
    workspace.clear()


def test_malformed_claims_are_refused_by_name(target: tuple[Scope, Workspace]) -> None:
    scope, workspace = target
    resource = counted_resource(scope)
    found = judge_amounts(resource, ask_amounts(workspace, scope, resource))
    assert [finding.outcome for finding in found] == [Outcome.OK] * 5
    workspace.clear()


GPU = "GPU-11111111-2222-3333-4444-55555555555{}"
FILES = "full\nnull\nnvidia-uvm\nnvidia0\nnvidiactl"


def device(index: int = 0, *steps: Step) -> Device:
    return Device(index=index, uuid=GPU.format(index), steps=[Step(name="copy", status=Status.OK, compared=1 << 20), *steps])


def library(*devices: Device, present: bool = True, trouble: Trouble | None = None) -> list[Library]:
    return [
        Library(api="cuda", file="libcuda.so.1", present=present, trouble=trouble, devices=list(devices)),
        Library(api="hip", file="libamdhip64.so.7", present=False),
    ]


def ran(libraries: list[Library], *, listed: int = 1, files: str = FILES, stopped: bool = False, text: str = "") -> ProbeResult:
    document = Document(suite="", taken_at="", stopped=stopped, libraries=libraries)
    printed = encode(document, indent=False).decode() if libraries else text
    smi = "\n".join(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {GPU.format(index)})" for index in range(listed))
    log = f"## uid\n1000\n## smi\n{smi}\n## dev\n{files}\n## compute\n{printed}\n## end\n"
    return ProbeResult(subject=Subject("Pod", "p"), node="gpu-0", logs={"probe": log})


def error(code: int, call: str = "cuInit") -> Trouble:
    return Trouble(call=call, code=code)


BAD, UNDECIDED, OK = Outcome.BAD, Outcome.UNDECIDED, Outcome.OK
CASES = {
    "it computes": (ran(library(device())), OK, ""),
    "error 802, as of gpu-operator#375 and kata-containers#11730": (ran(library(trouble=error(802))), BAD, "FabricNotReady"),
    "no uvm, nvidia-container-toolkit#1246": (ran(library(trouble=error(999)), files="null\nnvidia0"), BAD, "UvmMissing"),
    "unknown, with uvm": (ran(library(trouble=error(999))), BAD, "DeviceDoesNotCompute"),
    "driver and library differ": (ran(library(trouble=error(803))), BAD, "DriverLibraryMismatch"),
    "no library": (ran(library(present=False)), BAD, "ComputeLibraryMissing"),
    "memory of others": (
        ran(library(device(0, Step(name="allocate", status=Status.ERROR, trouble=error(2, "cuMemAlloc_v2"))))),
        BAD,
        "DeviceTakenByOthers",
    ),
    "wrong values, rocm-libraries#12344": (
        ran(library(device(0, Step(name="multiply", status=Status.WRONG, compared=4, wrong=WrongValues(count=1, first=0))))),
        BAD,
        "DeviceComputesWrong",
    ),
    "memory of others, by Level Zero": (
        ran(library(device(0, Step(name="allocate", status=Status.ERROR, trouble=error(0x70000003, "zeMemAllocDevice"))))),
        BAD,
        "DeviceTakenByOthers",
    ),
    "lost, intel/compute-runtime#944": (
        ran(library(device(0, Step(name="kernel", status=Status.ERROR, trouble=error(0x70000001, "zeCommandListAppendLaunchKernel"))))),
        BAD,
        "DeviceDoesNotCompute",
    ),
    "a hung call": (
        ran(library(device(0, Step(name="context", status=Status.HUNG, trouble=Trouble(call="cuCtxSetCurrent"))))),
        BAD,
        "DeviceDoesNotCompute",
    ),
    "killed for memory of the pod": (
        ran(library(device(0, Step(name="copy", status=Status.CRASHED, trouble=Trouble(call="x", message="ended by SIGKILL"))))),
        UNDECIDED,
        "ProbeDidNotRun",
    ),
    "one of two does not compute": (ran(library(device()), listed=2), BAD, "DeviceDoesNotCompute"),
    "another device computes": (ran(library(device(1))), BAD, "DeviceDoesNotCompute"),
    "nothing was compared": (ran(library(Device(index=0, uuid=GPU.format(0)))), UNDECIDED, "ProbeDidNotRun"),
    "stopped": (ran(library(device()), stopped=True), UNDECIDED, "ProbeDidNotRun"),
    "no document": (ran([], text="sh: gpu-conformance: not found"), UNDECIDED, "ProbeDidNotRun"),
    "of a later version": (ran([], text='{"schemaVersion":"2.0","suite":"","takenAt":""}'), UNDECIDED, "ProbeDidNotRun"),
}


@pytest.mark.parametrize("case", CASES)
def test_what_a_pod_computed_decides(case: str) -> None:
    result, outcome, cause = CASES[case]
    finding = judge_computing(result, 1, "nvidia.com/gpu")
    assert (finding.outcome, finding.cause if outcome is not OK else "") == (outcome, cause)


def test_an_image_that_must_bring_the_library_and_does_not_shows_nothing() -> None:
    for image in (ran(library(present=False)), ran([], text="")):
        assert judge_computing(image, 1, "amd.com/gpu", mounted=False).outcome is Outcome.NOT_JUDGED
    assert judge_computing(ran(library(device()), listed=0), 1, "amd.com/gpu", mounted=False).outcome is OK


def test_fewer_devices_than_were_given_is_bad() -> None:
    assert judge_computing(ran(library(device())), 2, "nvidia.com/gpu").outcome is BAD


def test_another_vendors_library_without_devices_is_no_fault() -> None:
    both = [*library(device()), Library(api="levelZero", file="libze_loader.so.1", trouble=error(0x78000001, "zeInit"))]
    assert judge_computing(ran(both), 1, "nvidia.com/gpu").outcome is OK


@each_row
def test_what_others_hold_of_a_shared_device_shows_nothing(trouble: Trouble) -> None:
    taken = ran(library(device(0, Step(name="allocate", status=Status.ERROR, trouble=trouble))))
    assert judge_computing(taken, 1, "nvidia.com/gpu").outcome is BAD
    assert judge_computing(taken, 1, "nvidia.com/gpu", shared=True).outcome is UNDECIDED
    assert judge_holder(taken, 1, "nvidia.com/gpu", shared=True).outcome is OK, "ISO-01 counts devices, which it can"


def test_a_device_that_is_listed_and_does_not_compute_is_not_enough_elsewhere() -> None:
    dead = judge_holder(ran(library(trouble=error(802))), 1, "nvidia.com/gpu")
    assert (dead.outcome, dead.cause) == (BAD, "FabricNotReady")
    assert judge_holder(ran(library(device())), 1, "nvidia.com/gpu").outcome is OK


@each_row
def test_the_log_of_the_sample_decides(log: str, outcome: Outcome, cause: str) -> None:
    finding = judge_sample(ProbeResult(subject=Subject("Pod", "p"), logs={"probe": log}), "nvidia.com/gpu")
    assert (finding.outcome, finding.cause if outcome is not OK else "") == (outcome, cause)


def test_a_captured_log_of_the_sample_passes() -> None:
    log = sample("cuda-vectoradd-1")
    assert judge_sample(ProbeResult(subject=Subject("Pod", "p"), logs={"probe": log}), "nvidia.com/gpu").outcome is OK
