"""A cluster whose devices are claimed is not conformant while no requirement of the area DRA exists."""

from __future__ import annotations

import pytest

from conformance.coverage.missing_areas import missing_areas
from fixtures.kubernetes.models import Json
from tests.builders import a_cpu_node, a_node, a_scope
from tests.dra import a_slice

DRA_ONLY = a_node("gpu-1", capacity={"nvidia.com/gpu": "0"})


@pytest.mark.parametrize(
    ("slices", "areas", "word"),
    [
        ([a_slice("gpu-1"), a_slice("gpu-0")], {"INV"}, "1 accelerator node offers devices through DRA only (gpu.nvidia.com)"),
        ([a_slice("gpu-1")], {"INV", "DRA"}, ""),
        ([a_slice("gpu-0")], {"INV"}, ""),
        ([a_slice("gpu-1", "dra.net", [{"name": "eth0"}])], {"INV"}, ""),
    ],
)
def test_devices_that_only_claims_reach_are_named(slices: list[Json], areas: set[str], word: str) -> None:
    found = list(missing_areas(a_scope(nodes=[a_node(), DRA_ONLY, a_cpu_node()], resourceslices=slices), areas))
    assert bool(found) is bool(word)
    assert word in "".join(found)
