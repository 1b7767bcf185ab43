"""Conditions: what they say of a sample, and what they refuse to be."""

from typing import Any

import pytest

from chaos.model.conditions import ConditionError, holds, parse_condition, signals_of

BASE = {"n": 4, "text": "abc", "list": [1, 2], "obj": {"a": 1}, "flag": True}


@pytest.mark.parametrize(
    ("condition", "values", "expected"),
    [
        ({"signal": "n", "equals": "baseline"}, {"n": 4.0}, True),
        ({"signal": "n", "equals": "baseline", "minus": 1}, {"n": 3}, True),
        ({"signal": "n", "equals": "baseline", "plus": 1}, {"n": 3}, False),
        ({"signal": "n", "below": 4}, {"n": 4}, False),
        ({"signal": "n", "at_most": "baseline"}, {"n": 4}, True),
        ({"signal": "n", "above": 3}, {"n": "4"}, None),
        ({"signal": "n", "at_least": 1}, {}, None),
        ({"signal": "x", "equals": "baseline"}, {"x": 1}, None),
        ({"signal": "flag", "is": True}, {"flag": 1}, False),
        ({"signal": "flag", "is": None}, {"flag": None}, True),
        ({"signal": "flag", "equals": 1}, {"flag": True}, False),
        ({"signal": "text", "contains": "b"}, {"text": "abc"}, True),
        ({"signal": "list", "contains": "baseline"}, {"list": [3, 2, 1]}, True),
        ({"signal": "list", "contains": [1, 4]}, {"list": [1, 2]}, False),
        ({"signal": "obj", "contains": {"a": 1}}, {"obj": {"a": 1, "b": 2}}, True),
        ({"signal": "obj", "contains": "a"}, {"obj": {"a": 1}}, True),
        ({"signal": "n", "contains": "a"}, {"n": 1}, None),
        ({"signal": "obj", "differs": "baseline"}, {"obj": {"a": 2}}, True),
    ],
)
def test_leaves(condition: dict[str, Any], values: dict[str, Any], expected: bool | None) -> None:
    assert holds(parse_condition(condition), values, BASE) is expected


@pytest.mark.parametrize(
    ("left", "right", "both", "one"),
    [(True, True, True, True), (True, False, False, True), (True, None, None, True), (False, None, False, None), (None, None, None, None)],
)
def test_unknown_is_neither_true_nor_false(left: bool | None, right: bool | None, both: bool | None, one: bool | None) -> None:
    values = {name: value for name, value in (("l", left), ("r", right)) if value is not None}
    parts = [{"signal": "l", "is": True}, {"signal": "r", "is": True}]
    assert holds(parse_condition({"all": parts}), values, {}) is both
    assert holds(parse_condition({"any": parts}), values, {}) is one
    assert holds(parse_condition({"not": parts[1]}), values, {}) is (None if right is None else not right)


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"signal": "a"},
        {"signal": "", "is": True},
        {"signal": "a", "is": 1},
        {"signal": "a", "equals": 1, "differs": 2},
        {"signal": "a", "equal": 1},
        {"signal": "a", "equals": 1, "minus": 1},
        {"signal": "a", "equals": "baseline", "minus": True},
        {"signal": "a", "below": "ten"},
        {"all": []},
        {"all": {}},
        {"all": [{"signal": "a", "is": True}], "any": []},
        {"any": [{"signal": "a", "is": True}], "of": 1},
        {"not": {}},
    ],
)
def test_what_is_no_condition_is_refused(document: object) -> None:
    with pytest.raises(ConditionError, match="here"):
        parse_condition(document, "here")


def test_every_signal_of_a_condition_is_known() -> None:
    condition = parse_condition(
        {"any": [{"not": {"signal": "a", "is": True}}, {"all": [{"signal": "b", "is": True}, {"signal": "a", "is": None}]}]}
    )
    assert set(signals_of(condition)) == {"a", "b"}
