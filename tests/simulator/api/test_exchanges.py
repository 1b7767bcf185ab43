"""Exchanges with the simulated API server: writing, deleting, binding and evicting, as ``exchanges.yaml`` writes them down."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.simulator.api.background import BackgroundServer
from tests.simulator.api.web import APPLY, JSON_PATCH, MERGE, STRATEGIC, Web

TYPES = {"merge": MERGE, "json": JSON_PATCH, "strategic": STRATEGIC, "apply": APPLY}


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request and what is expected of its answer; the head of the file says what the fields mean."""

    to: str
    body: Any = None
    raw: str = ""
    type: str = ""
    answers: int = 0
    has: dict[str, Any] = {}
    names: list[str] | None = None
    says: str = ""
    keep: dict[str, str] = {}


_FILE = yaml.load(Path(__file__).with_name("exchanges.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
EXCHANGES = msgspec.convert({name: steps for name, steps in _FILE.items() if name != "objects"}, dict[str, list[Step]])


def missing(found: Any, expected: Any, path: str = "") -> list[str]:
    """Where a value is not what is expected of it: mappings may hold more."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return [line for key, value in expected.items() for line in missing(found.get(key), value, f"{path}.{key}")]
    if isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        return [line for index, value in enumerate(expected) for line in missing(found[index], value, f"{path}[{index}]")]
    return [] if found == expected else [f"{path}: {found!r}, not {expected!r}"]


def filled(value: Any, kept: dict[str, Any]) -> Any:
    """A value with what was kept in place of ``$name``."""
    if isinstance(value, dict):
        return {key: filled(inner, kept) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, kept) for inner in value]
    return kept[value[1:]] if isinstance(value, str) and value.startswith("$") else value


@pytest.mark.parametrize("name", EXCHANGES)
def test_exchange(background: BackgroundServer, web: Web, name: str) -> None:
    kept: dict[str, Any] = {}
    for step in EXCHANGES[name]:
        method, _, path = step.to.partition(" ")
        body = step.raw.encode() or filled(step.body, kept)
        if method == "SEED":
            background.call(lambda objects=body: [background.server.store.put_initial(item) for item in objects])  # type: ignore[misc]
            continue
        kind = TYPES[step.type or "merge"] if method == "PATCH" else "application/json"
        answer = web(method, path if path.startswith("/") else f"/api/v1/namespaces/default/{path}", body, kind)
        assert answer.status == step.answers if step.answers else answer.status < 300, (step.to, answer.status, answer.body)
        assert missing(answer.body, filled(step.has, kept)) == [], step.to
        assert step.says in answer.body.get("message", ""), step.to
        assert step.names is None or answer.names == step.names, step.to
        for key, where in step.keep.items():
            kept[key] = answer.body
            for part in where.split("."):
                kept[key] = kept[key][part]
