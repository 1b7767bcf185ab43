"""ISO: isolation of devices."""

from conformance.iso.probes import probe_bypass, probe_computing, probe_disjoint, probe_holders
from conformance.iso.release import Computing, probe_release
from conformance.requirement import Once, requirement
from fixtures.model.cluster import Scope
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Evidence


@requirement("ISO-01", devices=2)
def test_a_pod_sees_exactly_the_devices_it_asked_for(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod sees exactly the devices it asked for, and its other containers see none."""
    judge(probe_holders(scope, workspace))


@requirement("ISO-02", devices=0, holders=1)
def test_a_pod_that_asked_for_nothing_sees_no_device(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """A pod that asked for nothing sees no device, whatever NVIDIA_VISIBLE_DEVICES says."""
    judge(probe_bypass(scope, workspace))


@requirement("ISO-03", devices=0, holders=2)
def test_pods_that_run_together_hold_different_devices(judge: Evidence, scope: Scope, workspace: Workspace) -> None:
    """Pods that run together on one node hold different devices."""
    judge(probe_disjoint(scope, workspace))


@requirement("ISO-04")
def test_a_device_that_was_given_back_is_free_and_its_memory_empty(judge: Evidence, scope: Scope, workspace: Workspace, once: Once) -> None:
    """A device that a pod gave back is free again, and its memory is empty."""
    judge(probe_release(scope, workspace, once(Computing)))


@requirement("ISO-05")
def test_a_device_that_a_pod_was_given_computes(judge: Evidence, scope: Scope, workspace: Workspace, once: Once) -> None:
    """A device that a pod was given computes, and gives the values that it must."""
    judge(probe_computing(scope, workspace, once(Computing)))
