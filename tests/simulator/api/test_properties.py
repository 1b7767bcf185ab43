"""What holds for every input: patches and selectors."""

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fixtures.simulator.api.errors import ApiError
from fixtures.simulator.api.patches import json_patch, merge_patch
from fixtures.simulator.api.resources import Registry
from fixtures.simulator.api.selectors import field_matcher, parse_labels
from tests.tables import each_row

PODS = Registry().by_key("pods")


@each_row
def test_merge_patch_does_what_its_rfc_says(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


@each_row
def test_json_patch_does_what_its_rfc_says(target: Any, operations: Any, result: Any) -> None:
    assert json_patch(target, operations) == result


@given(st.text(max_size=20))
def test_selectors_are_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ApiError):
        parse_labels(text)
    with contextlib.suppress(ApiError):
        field_matcher(text, PODS)
