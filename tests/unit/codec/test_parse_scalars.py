"""Single values whose bytes or texts are unusual."""

from __future__ import annotations

import pytest

from docgraph.codec.bson_types import Decimal128
from docgraph.codec.parse_scalars import parse_date, parse_decimal, render_decimal


@pytest.mark.parametrize(
    ("high", "text"),
    [
        (0x3041_FFFF_FFFF_FFFF, "0"),
        (0x303D_FFFF_FFFF_FFFF, "0.00"),
        (0xB03D_FFFF_FFFF_FFFF, "-0.00"),
        (0x3043_FFFF_FFFF_FFFF, "0E+1"),
    ],
)
def test_a_coefficient_beyond_34_digits_is_zero(high: int, text: str) -> None:
    decimal = Decimal128.from_bid(b"\xff" * 8 + high.to_bytes(8, "little"))

    assert render_decimal(decimal) == text


@pytest.mark.parametrize("text", ["-0", "00.10", "1e3", "+5", ".5", "5.", "-NaN", "inf"])
def test_decimals_of_unusual_spelling_are_read_as_the_driver_reads_them(text: str) -> None:
    assert parse_decimal(text).bid == Decimal128(text).bid


def test_an_ordinary_date_and_its_long_spelling_are_the_same() -> None:
    assert parse_date("2019-09-12T13:42:49.260Z") == parse_date("2019-09-12t13:42:49.26+00:00")
