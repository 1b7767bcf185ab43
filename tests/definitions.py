"""CustomResourceDefinitions of add-ons, as a scenario has them."""

from fixtures.simulator.api.objects import Json
from fixtures.simulator.builder import build
from fixtures.simulator.config.scenario import Scenario


def definitions(*addons: str) -> list[Json]:
    """The definitions that the add-ons bring."""
    built = build(Scenario(name="definitions", description="", pools=[], addons=list(addons)))
    return [item for item in built if item["kind"] == "CustomResourceDefinition"]
