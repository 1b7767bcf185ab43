"""DRA-05: what became of a claim, step by step, and what nobody can tell."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conformance.dra.claim_life import ClaimLife, judge_life
from conformance.probes.running import ProbeResult
from fixtures.kubernetes.models import Json
from fixtures.model.dra.held_claims import held_claim, published
from fixtures.verdict.findings import Finding, Outcome
from fixtures.verdict.subjects import Subject
from tests.builders import a_cpu_node, a_scope
from tests.dra import a_claim, a_class, a_device, a_slice
from tests.tables import each_row

OTHER = "GPU-8a0cb40d-f2e8-2199-64b0-000000000007"
UUID = "GPU-8a0cb40d-f2e8-2199-64b0-000000000001"
POD = "pod-uid"


def log(*uuids: str, smi: str | None = None) -> str:
    listed = smi if smi is not None else "\n".join(f"GPU {index}: NVIDIA H100 80GB HBM3 (UUID: {uuid})" for index, uuid in enumerate(uuids))
    return f"## uid\n1000\n## smi\n{listed}\n## dev\nnull\nnvidia0\n## end\n"


def a_life(text: str = log(UUID), *, trouble: str = "", users: tuple[str, ...] = (POD,), device: str = "gpu-0", **more: Any) -> ClaimLife:
    claim = a_claim("c", device=device)
    claim.setdefault("status", {})["reservedFor"] = [{"resource": "pods", "name": "p", "uid": uid} for uid in users]
    ran = ProbeResult(subject=Subject("Pod", "p", "ns"), node="gpu-0", logs={"probe": text}, trouble=trouble)
    return ClaimLife(**{"ran": ran, "pod_uid": POD, "claim": held_claim(claim), **more})


def judged(life: ClaimLife, device: Json | None = None) -> Finding:
    own = a_device("gpu-0")
    own["attributes"]["uuid"] = {"string": UUID}
    slices = [a_slice("gpu-0", devices=[device or own])]
    return judge_life(life, published(a_scope(nodes=[a_cpu_node("gpu-0")], resourceslices=slices, deviceclasses=[a_class()])))


@each_row
def test_each_step_can_fail(life: Json, words: str) -> None:
    finding = judged(a_life(**life))
    assert finding.outcome is Outcome.BAD
    assert words in finding.message


@each_row
def test_what_is_not_visible_is_undecided(life: Json, words: str) -> None:
    finding = judged(a_life(**life))
    assert finding.outcome is Outcome.UNDECIDED
    assert words in finding.message


def test_a_driver_without_uuids_leaves_nothing_to_compare() -> None:
    assert judged(a_life(), {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}}}).outcome is Outcome.UNDECIDED


_KEYS = ["status", "allocation", "devices", "results", "reservedFor", "uid", "driver"]
_WILD = st.recursive(st.none() | st.text(max_size=4), lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(_KEYS), inner))


@pytest.mark.test_all
@given(_WILD, st.text(max_size=40))
def test_a_wild_claim_never_conforms(claim: Any, text: str) -> None:
    life = msgspec.structs.replace(a_life(text), claim=held_claim(claim if isinstance(claim, dict) else {}))
    assert judged(life).outcome in (Outcome.BAD, Outcome.UNDECIDED)
