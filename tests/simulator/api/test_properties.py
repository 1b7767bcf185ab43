"""What holds for every input: patches, field sets, selectors and pages."""

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.objects import Json
from fixtures.simulator.api.patches import json_patch, merge_patch
from fixtures.simulator.api.resources import Registry
from fixtures.simulator.api.selectors import field_matcher, parse_labels
from fixtures.simulator.server import managedfields
from tests.simulator.api.web import config_map
from tests.tables import each_row

REGISTRY = Registry()
CONFIG_MAP, PODS = REGISTRY.by_key("configmaps"), REGISTRY.by_key("pods")

NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.text("xyz", min_size=1, max_size=2)
DATA = st.dictionaries(NAMES, VALUES, max_size=4)
MANAGERS = st.sampled_from(["one", "two", "three"])


@each_row
def test_merge_patch_does_what_its_rfc_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@each_row
def test_json_patch_does_what_its_rfc_says(target: Any, operations: Any, result: Any) -> None:
    assert json_patch(target, operations) == result


@given(st.lists(st.tuples(MANAGERS, DATA), min_size=1, max_size=6))
def test_forced_applies_leave_what_each_manager_last_asked_for(steps: list[tuple[str, dict[str, str]]]) -> None:
    assert CONFIG_MAP is not None
    live: Json | None = None
    wanted: dict[str, dict[str, str]] = {}
    for manager, data in steps:
        live = managedfields.apply(live, config_map("c", data=data), CONFIG_MAP, manager, force=True)
        taken = {key for key, value in data.items()}
        for other, held in wanted.items():
            if other != manager:
                for key in taken & held.keys():
                    if held[key] != data[key]:
                        del held[key]
        wanted[manager] = dict(data)
    expected = {key: value for held in wanted.values() for key, value in held.items()}
    assert live is not None
    assert (live.get("data") or {}) == expected


@given(st.text(max_size=20))
def test_selectors_are_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ApiError):
        parse_labels(text)
    with contextlib.suppress(ApiError):
        field_matcher(text, PODS)
