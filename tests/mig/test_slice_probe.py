from typing import cast

import pytest

from conformance.mig.probes import _pod, absent_profile, chosen, judge_slices
from conformance.probes.running import ProbeResult
from fixtures.model.devices.mig_geometry import resource_name
from fixtures.model.devices.mig_nodes import mig_nodes
from fixtures.model.devices.node_advertisement import advertisement
from fixtures.model.placement.free_devices import Place
from fixtures.probes.workspace import Workspace
from fixtures.verdict.findings import Outcome
from fixtures.verdict.subjects import Inconclusive, NotApplicable, Subject
from tests.adv.built import scope_of
from tests.builders import a_node, a_pod, a_scope
from tests.mig.test_slices import mixed, single

UUID = "11111111-2222-3333-4444-55555555555"


def smi(*profiles: str, first: int = 0) -> str:
    lines = [f"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-{UUID}0)"]
    lines += [f"  MIG {profile}     Device  {n}: (UUID: MIG-{UUID}{n + first})" for n, profile in enumerate(profiles)]
    return "\n".join(["## uid", "1000", "## smi", *lines, "## dev", "null", "## end"])


def ran(text: str = "", trouble: str = "") -> ProbeResult:
    return ProbeResult(subject=Subject("Pod", "p", "ns"), node="gpu-0", logs={"probe": text}, trouble=trouble)


def judged(*texts: str, shared: bool = False) -> list[Outcome]:
    view, resource = advertisement({}), "nvidia.com/mig-1g.10gb"
    place = Place(node=a_node(), view=view, resource=resource, free=2, capacity=2, shared=shared, product="1g.10gb")
    pods = {f"p{n}": ran(text) for n, text in enumerate(texts)}
    return [finding.outcome for finding in judge_slices(dict.fromkeys(pods, place), pods)]


def test_a_pod_gets_one_slice_of_its_profile_and_no_other_pod_s() -> None:
    assert judged(smi("1g.10gb"), smi("1g.10gb", first=1)) == [Outcome.OK, Outcome.OK]
    assert judged(smi("1g.10gb"), smi("1g.10gb")) == [Outcome.BAD, Outcome.BAD]
    assert judged(smi("1g.10gb"), smi("1g.10gb"), shared=True) == [Outcome.OK, Outcome.OK]
    assert judged(smi("2g.20gb")) == [Outcome.BAD]
    assert judged(smi("1g.10gb", "1g.10gb")) == [Outcome.BAD]
    assert judged(smi()) == [Outcome.BAD]


@pytest.mark.parametrize(("old", "new"), [("## end", "## compute\nKilled\n## end"), ("null", ""), ("## uid", "## who")])
def test_what_cannot_be_read_beside_the_listing_costs_no_judgement_of_slices(old: str, new: str) -> None:
    one, other, wrong = (text.replace(old, new) for text in (smi("1g.10gb"), smi("1g.10gb", first=1), smi("2g.20gb", first=2)))
    assert judged(one, other, wrong) == [Outcome.OK, Outcome.OK, Outcome.BAD]
    assert judged(one, smi("1g.10gb")) == [Outcome.BAD, Outcome.BAD]


@pytest.mark.parametrize("text", ["", "## smi", "## smi\n## end", "## smi\nNo devices found\nexit=6\n## end", "\x00\x00"])
def test_what_cannot_be_read_is_not_judged(text: str) -> None:
    assert judged(text) == [Outcome.UNDECIDED]


def test_slices_are_asked_for_where_they_are_free() -> None:
    holder = a_pod(devices={"nvidia.com/mig-1g.5gb": "56"}, node="gpu-0")
    full = a_scope(nodes=[mixed({"1g.5gb": 56})], pods=[holder])
    with pytest.raises(Inconclusive, match=r"0 of 56 nvidia\.com/mig-1g\.5gb free"):
        chosen(full)
    with pytest.raises(NotApplicable):
        chosen(a_scope(nodes=[a_node(), mixed({"3g.40gb": 2})]))
    found = chosen(a_scope(nodes=[single()]))
    assert [(slot.resource, slot.product, slot.free) for slot in found] == [("nvidia.com/gpu", "1g.10gb", 56)]
    assert {slot.product for slot in chosen(scope_of("mig-mixed"))} == {"1g.5gb", "2g.10gb", "3g.20gb", "3g.71gb"}


def test_the_absent_profile_is_offered_nowhere() -> None:
    scope = scope_of("mig-mixed")
    nodes = list(mig_nodes(scope))
    name = resource_name(absent_profile(scope, nodes, nodes[0].node))
    assert name.startswith("nvidia.com/mig-")
    assert all(name not in node.status.capacity for node in scope.snapshot.nodes)


def test_the_absent_profile_is_asked_for_by_its_own_resource_where_one_name_stands_for_all() -> None:
    """With strategy single a node offers 1g.10gb as nvidia.com/gpu, and no node offers nvidia.com/mig-1g.10gb."""
    scope = a_scope(nodes=[single()])
    (slot,) = chosen(scope)
    pod = _pod(
        scope, cast(Workspace, None), slot, "absent", slot.product, resource_name(absent_profile(scope, list(mig_nodes(scope)), slot.node))
    )
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert slot.resource not in limits
    assert any(name.startswith("nvidia.com/mig-") for name in limits)
