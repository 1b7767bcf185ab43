"""A simulated API server in a thread of the test's process, for tests that drive it with the suite's synchronous client."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from fixtures.cluster.client import Cluster
from fixtures.simulator.admission.interface import Admission
from fixtures.simulator.api.resources import Registry
from fixtures.simulator.server.app import SimulatedServer
from fixtures.simulator.server.request import Authorizer
from fixtures.simulator.server.store import Store
from tests.simulator.api.background import BackgroundServer
from tests.troubles import Trouble


def kubeconfig(folder: Path, server: str) -> Path:
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "served",
        "contexts": [{"name": "served", "context": {"cluster": "served", "user": "served"}}],
        "clusters": [{"name": "served", "cluster": {"server": server}}],
        "users": [{"name": "served", "user": {}}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def edited(folder: Path, server: str = "http://127.0.0.1:1", **changes: Any) -> Path:
    """:func:`kubeconfig` with these fields in its ``config``, its ``cluster``, and its ``context`` and ``user`` entries."""
    path = kubeconfig(folder, server)
    config = yaml.safe_load(path.read_text())
    places = {"config": config, "cluster": config["clusters"][0]["cluster"], "context": config["contexts"][0], "user": config["users"][0]}
    for place, fields in changes.items():
        places[place].update(fields)
    path.write_text(json.dumps(config))
    return path


@contextmanager
def served(
    folder: Path,
    objects: Iterable[dict[str, Any]] = (),
    troubles: Sequence[Trouble] = (),
    authorizer: Authorizer | None = None,
    admissions: Sequence[Admission] = (),
    native_gangs: bool = False,
) -> Iterator[tuple[Cluster, Store]]:
    """A served store and a session with it. ``native_gangs`` is the feature gate GenericWorkload."""
    store = Store(Registry(native_gangs=native_gangs))
    for obj in objects:
        store.put_initial(obj)
    server = SimulatedServer(store, troubles=list(troubles), authorizer=authorizer, admissions=admissions)
    with BackgroundServer(server) as background:
        yield Cluster.from_kubeconfig(kubeconfig(folder, background.url)), store
