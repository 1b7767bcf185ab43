"""Conditions over the signals of one sample: ``{signal: NAME, OP: value}``, combined by ``all``, ``any`` and ``not``.

Three-valued: a leaf whose signal has no data is unknown (None), never true and never false. ``all`` is false as soon as one
part is false and ``any`` is true as soon as one is true; otherwise an unknown part makes the whole unknown (Kleene).

Operators: ``equals``, ``differs`` (JSON equality), ``below``, ``above``, ``at_most``, ``at_least`` (numbers), ``contains``
(text in text, value in list, every item of a list in a list, every entry of an object in an object), ``is`` (true, false or
null). The value is a literal, or the word ``baseline``: what the signal gave before the fault; with a number as baseline,
``minus`` or ``plus`` shift it (``{signal: allocatable, equals: baseline, minus: 1}``).
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

JsonValue = Any
"""None, bool, int, float, str, list or dict with text keys, of these."""

BASELINE = "baseline"
OPERATORS = ("equals", "differs", "below", "above", "at_most", "at_least", "contains", "is")


class ConditionError(ValueError):
    """The condition is not one. The text says where and what was expected."""


class Leaf(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison. ``shift`` is added to a baseline that is a number."""

    signal: str
    operator: str
    value: JsonValue
    of_baseline: bool = False
    shift: float = 0.0


class All(msgspec.Struct, frozen=True):
    """True when every part is."""

    parts: "tuple[Condition, ...]"


class AnyOf(msgspec.Struct, frozen=True):
    """True when one part is."""

    parts: "tuple[Condition, ...]"


class Not(msgspec.Struct, frozen=True):
    """True when the part is false."""

    part: "Condition"


Condition = Leaf | All | AnyOf | Not


def parse_condition(document: object, where: str = "condition") -> Condition:
    """Decode a condition as YAML gives it. Raises :class:`ConditionError` that names the place."""
    if not isinstance(document, dict):
        raise ConditionError(f"{where}: expected an object with 'signal', 'all', 'any' or 'not', got {document!r}")
    kinds = [key for key in ("signal", "all", "any", "not") if key in document]
    if len(kinds) != 1:
        raise ConditionError(f"{where}: expected exactly one of 'signal', 'all', 'any', 'not', got {sorted(map(str, document))}")
    if kinds == ["signal"]:
        return _leaf(document, where)
    if unknown := sorted(str(key) for key in document if key != kinds[0]):
        raise ConditionError(f"{where}: unknown key {unknown[0]!r} beside {kinds[0]!r}")
    if kinds == ["not"]:
        return Not(parse_condition(document["not"], f"{where}.not"))
    parts = document[kinds[0]]
    if not isinstance(parts, list) or not parts:
        raise ConditionError(f"{where}.{kinds[0]}: expected a list with at least one condition")
    parsed = tuple(parse_condition(part, f"{where}.{kinds[0]}[{index}]") for index, part in enumerate(parts))
    return All(parsed) if kinds == ["all"] else AnyOf(parsed)


def _leaf(document: dict[str, Any], where: str) -> Leaf:
    name = document["signal"]
    if not isinstance(name, str) or not name:
        raise ConditionError(f"{where}.signal: expected the name of a signal")
    operators = [key for key in document if key in OPERATORS]
    if len(operators) != 1:
        raise ConditionError(f"{where}: expected exactly one operator of {', '.join(OPERATORS)}")
    operator = operators[0]
    if unknown := sorted(str(key) for key in document if key not in ("signal", operator, "minus", "plus")):
        raise ConditionError(f"{where}: unknown key {unknown[0]!r}; operators are {', '.join(OPERATORS)}")
    value = document[operator]
    of_baseline = value == BASELINE and isinstance(value, str)
    shift = 0.0
    for key, sign in (("minus", -1.0), ("plus", 1.0)):
        if key in document:
            amount = document[key]
            if not of_baseline or isinstance(amount, bool) or not isinstance(amount, (int, float)):
                raise ConditionError(f"{where}.{key}: expected a number, beside the value 'baseline'")
            shift += sign * amount
    if operator == "is" and value is not None and not isinstance(value, bool):
        raise ConditionError(f"{where}.is: expected true, false or null")
    if operator in ("below", "above", "at_most", "at_least") and not of_baseline and not _number(value):
        raise ConditionError(f"{where}.{operator}: expected a number or 'baseline'")
    return Leaf(signal=name, operator=operator, value=None if of_baseline else value, of_baseline=of_baseline, shift=shift)


def words_of(condition: Condition) -> str:
    """A condition for people: ``gpus.out equals 1 and node.ready is true``."""
    if isinstance(condition, Leaf):
        shift = f" {condition.shift:+g}" if condition.shift else ""
        value = f"{BASELINE}{shift}" if condition.of_baseline else plain_value(condition.value)
        return f"{condition.signal} {condition.operator.replace('_', ' ')} {value}"
    if isinstance(condition, Not):
        return f"not ({words_of(condition.part)})"
    joint = " and " if isinstance(condition, All) else " or "
    parts = [words_of(part) if isinstance(part, Leaf) or len(condition.parts) == 1 else f"({words_of(part)})" for part in condition.parts]
    return joint.join(parts)


def plain_value(value: JsonValue) -> str:
    """A value of a condition or an argument for people."""
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain_value(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(plain_value, value)) or "none"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value) or "empty"


def signals_of(condition: Condition) -> Iterator[str]:
    """Names of the signals that a condition reads."""
    if isinstance(condition, Leaf):
        yield condition.signal
    elif isinstance(condition, Not):
        yield from signals_of(condition.part)
    else:
        for part in condition.parts:
            yield from signals_of(part)


def holds(condition: Condition, values: Mapping[str, JsonValue], baseline: Mapping[str, JsonValue]) -> bool | None:
    """Whether the condition holds in a sample; None when its signals do not tell.

    ``values`` and ``baseline`` hold the signals that had data; a comparison of things that cannot be compared is unknown.
    """
    if isinstance(condition, Leaf):
        return _compare(condition, values, baseline)
    if isinstance(condition, Not):
        inner = holds(condition.part, values, baseline)
        return None if inner is None else not inner
    found = [holds(part, values, baseline) for part in condition.parts]
    decisive = isinstance(condition, AnyOf)
    if decisive in found:
        return decisive
    return None if None in found else not decisive


def _compare(leaf: Leaf, values: Mapping[str, JsonValue], baseline: Mapping[str, JsonValue]) -> bool | None:
    if leaf.signal not in values or (leaf.of_baseline and baseline.get(leaf.signal) is None):
        return None  # null in the baseline: there was nothing yet that could be compared with
    value = values[leaf.signal]
    wanted = baseline[leaf.signal] if leaf.of_baseline else leaf.value
    if leaf.shift:
        if not _number(wanted):
            return None
        wanted = wanted + leaf.shift
    if leaf.operator == "contains":
        return _contains(value, wanted)
    if leaf.operator in ("equals", "differs", "is"):
        return _same(value, wanted) is (leaf.operator != "differs")
    if not (_number(value) and _number(wanted)):
        return None
    return bool({"below": value < wanted, "above": value > wanted, "at_most": value <= wanted, "at_least": value >= wanted}[leaf.operator])


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(left: JsonValue, right: JsonValue) -> bool:
    """JSON equality: 1 equals 1.0, true does not equal 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(_same(one, other) for one, other in zip(left, right, strict=True))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _contains(value: JsonValue, wanted: JsonValue) -> bool | None:
    if isinstance(value, str):
        return wanted in value if isinstance(wanted, str) else None
    if isinstance(value, list):
        return all(any(_same(item, part) for item in value) for part in (wanted if isinstance(wanted, list) else [wanted]))
    if isinstance(value, dict):
        if isinstance(wanted, dict):
            return all(key in value and _same(value[key], part) for key, part in wanted.items())
        return wanted in value if isinstance(wanted, str) else None
    return None
