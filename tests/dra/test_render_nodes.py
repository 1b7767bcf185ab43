"""What a container without nvidia-smi was given, by its render nodes, and DRA-05 for drivers without UUIDs."""

import pytest

from conformance.dra.claim_life import ClaimLife, judge_life, pci_address, render_nodes
from conformance.probes.running import ProbeResult
from fixtures.model.dra.held_claims import held_claim
from fixtures.model.dra.slices import SliceDevice
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Subject
from tests.dra import a_claim
from tests.tables import each_row

AMD = "gpu.amd.com"
LINKS = """total 0
drwxr-xr-x 2 root root    0 Nov 23 10:00 .
lrwxrwxrwx 1 root root    0 Nov 23 10:00 card0 -> ../../devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/card0
lrwxrwxrwx 1 root root    0 Nov 23 10:00 renderD128 -> ../../devices/pci0000:00/0000:00:01.1/0000:03:00.0/drm/renderD128
lrwxrwxrwx 1 root root    0 Nov 23 10:00 renderD129 -> ../../devices/pci0000:00/0000:00:01.2/0000:83:00.0/drm/renderD129
lrwxrwxrwx 1 root root    0 Nov 23 10:00 renderD130 -> ../../devices/platform/amdgpu_xcp_0/drm/renderD130
-r--r--r-- 1 root root 4096 Nov 23 10:00 version"""


def log(*nodes: str, links: str = LINKS) -> str:
    return "\n".join(["## dri", *nodes, "## drm", links, "## end", ""])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "incomplete"),
        ("## dri\nrenderD128\n## drm\n", "incomplete"),
        (log("renderD128", links="ls: cannot access '/sys/class/drm': No such file or directory"), "/sys/class/drm"),
        (log("renderD130"), "renderD130 of its container is no PCI device of its own"),
        (log("renderD200"), "renderD200 of its container"),
    ],
)
def test_what_tells_nothing_says_why(text: str, words: str) -> None:
    assert words in str(render_nodes(text))


@each_row
def test_drivers_publish_addresses_by_several_names(attributes: dict[str, str], address: str) -> None:
    assert pci_address(SliceDevice(name="gpu-0-128", attributes=attributes)) == address


def judged(text: str, attributes: dict[str, str] | None = None) -> Finding:
    claim = a_claim("c", AMD, device="gpu-0-128")
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    ran = ProbeResult(subject=Subject("Pod", "p", "ns"), node="gpu-0", logs={"probe": text})
    life = ClaimLife(
        ran=ran, pod_uid="u", claim=held_claim(claim), unlistable=f"devices are seen with nvidia-smi, and it offers those of {AMD}"
    )
    known = {"resource.kubernetes.io/pciBusID": "0000:03:00.0"} if attributes is None else attributes
    return judge_life(life, {(AMD, "gpu-0", "gpu-0-128"): SliceDevice(name="gpu-0-128", attributes=known)})


@each_row
def test_a_driver_without_uuids_is_judged_by_pci_address(finding: Finding, outcome: Outcome, words: str) -> None:
    assert finding.outcome is outcome
    assert words in finding.message
