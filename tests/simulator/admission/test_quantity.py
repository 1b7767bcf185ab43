from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.kubernetes.quantity import (
    Format,
    QuantityError,
    as_int,
    canonical,
    compare,
    format_value,
    is_integer,
    parse,
    parse_with_format,
    stored,
)
from tests.tables import each_row


@each_row
def test_parse_is_exact(text: str | int | float, value: Fraction) -> None:
    assert parse(text) == value


@each_row
def test_what_is_no_quantity_is_refused_in_the_servers_words(text: Any) -> None:
    with pytest.raises(QuantityError, match=r"quantities must match|unable to parse"):
        parse(text)


@pytest.mark.parametrize("text", ["-", "+", "m", "k", "Ki", "-m", ".", "e3", "+."])
def test_a_sign_or_suffix_without_digits_is_zero_as_it_is_to_the_real_server(text: str) -> None:
    assert parse(text) == 0
    assert canonical(text) == "0"


def test_hostile_sizes_end_quickly() -> None:
    assert parse("1e-99999999999") == Fraction(1, 10**9)
    for text in ("1e999999999", "9" * 5000):
        with pytest.raises(QuantityError, match="numeric"):
            parse(text)


@each_row
def test_canonical_form(text: str, expected: str) -> None:
    assert canonical(text) == expected


def test_api_defaulting_rounds_up_to_milli() -> None:
    assert stored("100u") == "1m"
    assert stored("0.0015") == "2m"
    assert stored("-0.0015") == "-2m"
    assert stored("1.5Gi") == "1536Mi"


def test_whole_numbers() -> None:
    assert as_int("2000m") == 2
    assert as_int("1Ki") == 1024
    assert as_int(3) == 3
    assert is_integer("8")
    assert not is_integer("0.5")
    with pytest.raises(QuantityError, match="must be an integer"):
        as_int("500m")


def test_compare_sees_through_spelling() -> None:
    assert compare("1Gi", "1024Mi") == 0
    assert compare("1G", "1Gi") == -1
    assert compare("2", "1999m") == 1


def test_a_sum_keeps_its_format() -> None:
    value, form = parse_with_format("512Mi")
    assert format_value(value * 3, form) == "1536Mi"
    assert format_value(Fraction(3000), Format.DECIMAL_EXPONENT) == "3e3"


@given(st.decimals(min_value=-(10**12), max_value=10**12, places=3), st.sampled_from(["", "k", "M", "Ki", "Mi"]))
def test_canonical_keeps_the_value_and_is_a_fixed_point(number: Decimal, suffix: str) -> None:
    text = f"{number:f}{suffix}"
    once = canonical(text)
    assert parse(once) == parse(text)
    assert canonical(once) == once


@given(st.text(max_size=20) | st.from_regex(r"[+-]?[0-9.]{0,5}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,3}", fullmatch=True))
def test_parse_answers_or_refuses(text: str) -> None:
    try:
        value, form = parse_with_format(text)
    except QuantityError:
        return
    assert parse(format_value(value, form)) == value
