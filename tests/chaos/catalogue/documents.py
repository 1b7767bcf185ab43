"""The experiment of the engine's tests: a label on one GPU node, which its steady state sees."""

from copy import deepcopy
from typing import Any

LABEL = "gpu-conformance.test/fault"
MODULE = "tests.chaos.engine.faults"
MODULES = ("chaos.activities", "chaos.probes", MODULE)

EXTENSION: dict[str, Any] = {
    "name": "gpu-conformance",
    "id": "X1",
    "level": 0,
    "area": ["inv"],
    "undo": ["node.labels"],
    "fidelity": {"simulated": "simulated", "local": "simulated", "live": "real"},
    "radius": {"scope": "node", "count": 1},
    "target": {"select": "node"},
    "seconds": {
        "recovery": {"live": 60, "simulated": 20},
        "settle": {"live": 5, "simulated": 0.5},
        "deadline": {"live": 60, "simulated": 30},
        "sample": {"live": 1, "simulated": 0.1},
        "gap": {"live": 5, "simulated": 15},
        "grace": {"live": 20, "simulated": 3},
    },
    "signals": ["node.labels", "node.ready", "nodes.others"],
    "steady": {"all": [{"signal": "node.labels", "equals": "baseline"}, {"signal": "node.ready", "is": True}]},
    "detect": {"signal": "node.labels", "differs": "baseline"},
    "contained": {"signal": "node.ready", "is": True},
    "expect": [{"name": "the node stays ready", "always": {"signal": "node.ready", "is": True}}],
    "collateral": ["nodes.others"],
    "proves": "The engine injects, watches, undoes and judges.",
}


def activity(func: str, kind: str = "action", **arguments: Any) -> dict[str, Any]:
    name = f"{func} {' '.join(map(str, arguments.values()))}".strip()
    if func in ("label", "forget_to_label"):
        arguments = {"keys": [LABEL], **arguments}
    return {"type": kind, "name": name, "provider": {"type": "python", "module": MODULE, "func": func, "arguments": arguments}}


def document(*method: dict[str, Any], rollbacks: list[dict[str, Any]] | None = None, **extension: Any) -> dict[str, Any]:
    """The experiment with this method; by default the label, held for a second."""
    found = deepcopy(EXTENSION)
    seconds = extension.pop("seconds", {})
    found.update(extension)
    found["seconds"].update(seconds)
    return {
        "version": "1.0.0",
        "title": "A label on a node",
        "description": "Used by the tests of the engine.",
        "method": list(method) or [activity("label"), activity("hold", seconds=1.0)],
        "rollbacks": [activity("undo")] if rollbacks is None else rollbacks,
        "extensions": [found],
    }
