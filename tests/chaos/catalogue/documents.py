"""The experiment of the engine's tests: a label on one GPU node, which its steady state sees."""

from copy import deepcopy
from typing import Any

from tests.chaos.tables import table

LABEL = "gpu-conformance.test/fault"
MODULE = "tests.chaos.engine.faults"
MODULES = ("chaos.activities", "chaos.probes", MODULE)

EXTENSION: dict[str, Any] = deepcopy(table("engine/experiments/X1")["extensions"][0])
EXTENSION["seconds"] |= {
    "deadline": {"live": 60, "simulated": 30},
    "sample": {"live": 1, "simulated": 0.1},
    "grace": {"live": 20, "simulated": 3},
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


def put_at(owner: Any, path: str, value: object) -> None:
    """Set what a path leads to, through fields, keys and places: ``method.0.name``. A key may be ``(left out)``."""
    *way, last = path.split(".")
    for part in way:
        owner = owner[int(part)] if part.isdigit() else owner[part] if isinstance(owner, dict) else getattr(owner, part)
    if isinstance(owner, list):
        owner[int(last)] = value
    elif value == "(left out)":
        del owner[last]
    elif isinstance(owner, dict):
        owner[last] = value
    else:
        setattr(owner, last, value)
