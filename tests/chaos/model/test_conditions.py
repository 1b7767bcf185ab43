"""Conditions: what they say of a sample, and what they refuse to be."""

from typing import Any

import pytest

from chaos.model.conditions import ConditionError, holds, parse_condition, signals_of
from tests.chaos.tables import table
from tests.tables import each_row

BASE = {"n": 4, "text": "abc", "list": [1, 2], "obj": {"a": 1}, "flag": True}


CONDITIONS = table("model/conditions")


@pytest.mark.parametrize(("condition", "values", "expected"), [row.values() for row in CONDITIONS["leaves"]])
def test_leaves(condition: dict[str, Any], values: dict[str, Any], expected: bool | None) -> None:
    assert holds(parse_condition(condition), values, BASE) is expected


@each_row
def test_unknown_is_neither_true_nor_false(left: bool | None, right: bool | None, both: bool | None, one: bool | None) -> None:
    values = {name: value for name, value in (("l", left), ("r", right)) if value is not None}
    parts = [{"signal": "l", "is": True}, {"signal": "r", "is": True}]
    assert holds(parse_condition({"all": parts}), values, {}) is both
    assert holds(parse_condition({"any": parts}), values, {}) is one
    assert holds(parse_condition({"not": parts[1]}), values, {}) is (None if right is None else not right)


@pytest.mark.parametrize("document", CONDITIONS["refused"], ids=str)
def test_what_is_no_condition_is_refused(document: object) -> None:
    with pytest.raises(ConditionError, match="here"):
        parse_condition(document, "here")


def test_every_signal_of_a_condition_is_known() -> None:
    condition = parse_condition(
        {"any": [{"not": {"signal": "a", "is": True}}, {"all": [{"signal": "b", "is": True}, {"signal": "a", "is": None}]}]}
    )
    assert set(signals_of(condition)) == {"a", "b"}
