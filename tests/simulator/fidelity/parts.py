"""What ``requests.yaml`` describes, and the parts of requests in which one value depends on another."""

from pathlib import Path

from hypothesis import strategies as st

from tests.simulator.fidelity.drawing import Json, Strategy, described

DRAWN = described(Path(__file__).with_name("requests.yaml"))

_ORDINARY, _AMOUNTS, _QUANTITIES = DRAWN["ordinary"], DRAWN["amounts"], DRAWN["quantities"]
REQUIREMENTS = st.one_of(
    st.fixed_dictionaries({}, optional={"requests": _AMOUNTS, "limits": _AMOUNTS}),
    st.tuples(_ORDINARY, _QUANTITIES, _QUANTITIES).map(lambda drawn: {"requests": {drawn[0]: drawn[1]}, "limits": {drawn[0]: drawn[2]}}),
    st.tuples(st.sampled_from(["requests", "limits"]), _ORDINARY, _QUANTITIES).map(lambda drawn: {drawn[0]: {drawn[1]: drawn[2]}}),
    st.tuples(_ORDINARY, _QUANTITIES).map(lambda drawn: {"requests": {drawn[0]: drawn[1]}, "limits": {drawn[0]: drawn[1]}}),
)
QUANTITIES = st.one_of(
    REQUIREMENTS.map(lambda found: {"containers": [{"name": "main", "image": "registry.example/main:1", "resources": found}]}),
    REQUIREMENTS.map(lambda found: {"initContainers": [{"name": "init", "image": "registry.example/init:1", "resources": found}]}),
    REQUIREMENTS.map(lambda found: {"resources": found}),
    REQUIREMENTS.map(lambda found: {"overhead": found.get("requests", {})}),
)


def _claims(drawn: tuple[list[Json], list[Json]]) -> Json:
    claims, uses = drawn
    used = [*uses, *({"name": claim["name"]} for claim in claims[:1])]
    return {"resourceClaims": claims, "containers": [{"name": "main", "image": "i", "resources": {"claims": used}}]}


PARTS: dict[str, Strategy] = {
    **{name: DRAWN[name] for name in ("standards", "security", "tolerations", "selectors", "life", "metadata", "shapes")},
    "quantities": QUANTITIES,
    "claims": st.tuples(DRAWN["claims_of_a_pod"], DRAWN["uses_of_claims"]).map(_claims),
}
"""Kind of request → fields of a pod's spec; of ``metadata``, of its metadata."""

BODIES: dict[str, tuple[str, Strategy]] = {
    "deviceClass": ("deviceclasses", DRAWN["deviceClass"]),
    "deviceTaint": ("devicetaintrules", DRAWN["deviceTaint"]),
    "resourceClaim": ("resourceclaims", DRAWN["resourceClaim"]),
    "claimTemplate": ("resourceclaimtemplates", DRAWN["claimTemplate"]),
    "podGroup": ("podgroups", DRAWN["podGroup"]),
}
"""Kind of request → plural of the kind of object, and bodies."""
