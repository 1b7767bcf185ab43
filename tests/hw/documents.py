"""Documents of nodes from the tables of the mocked driver, as a probe pod on them would print them."""

from functools import partial

from conformance.probes.node_documents import NodeDocument
from fixtures.model.cluster import Scope
from fixtures.model.placement.free_devices import places_of
from fixtures.nodeprobe import nvml
from fixtures.nodeprobe.document import Document, Driver, Host
from fixtures.nodeprobe.tabled import TabledLibrary
from tests.builders import a_node, a_scope
from tests.nodeprobe.tables import MACHINES, Table


def a_document(machine: str = "h100", faults: Table | None = None, *, host: Host | None = None, name: str = "gpu-0") -> NodeDocument:
    """A node of a machine of :data:`MACHINES`, all of whose devices its pod holds, with values of its table replaced."""
    driver = nvml.collect(partial(TabledLibrary, {**MACHINES[machine], **(faults or {})}))
    return of_driver(driver, host=host, name=name)


def of_driver(driver: Driver, *, host: Host | None = None, name: str = "gpu-0") -> NodeDocument:
    """A node with this driver, all of whose devices its pod holds."""
    resource = {"amd": "amd.com/gpu"}.get(driver.vendor, "nvidia.com/gpu")
    scope: Scope = a_scope(nodes=[a_node(name, gpus=max(len(driver.devices), 1), resource=resource)])
    places = tuple(places_of(scope, scope.snapshot.nodes[0]))
    return NodeDocument(places=places, document=Document(suite="", taken_at="", drivers=[driver], host=host or Host()))
