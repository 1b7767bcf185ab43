"""The experiment's own ResourceClaims, where devices are claimed through a DRA driver."""

from __future__ import annotations

from chaos import canary
from chaos.activities.base import create, facts
from chaos.published import CLAIMS


def claim_for(name: str, devices: int, namespace: str) -> None:
    """Create the claim that the canary of that name uses; nothing where devices are asked for by resource."""
    if facts().device_class:
        create(CLAIMS, canary.claim(facts(), name, devices), namespace)
