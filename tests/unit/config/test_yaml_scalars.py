"""The core schema of YAML 1.2, and sizes."""

from __future__ import annotations

import math

import pytest

from docgraph.config.parse import parse_size, resolve_scalar


@pytest.mark.parametrize("text", ["no", "No", "off", "yes", "on", "y", "12:30", "1:2:3", "1_000"])
def test_surprises_of_yaml_1_1_are_texts(text: str) -> None:
    assert resolve_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("+7", 7),
        ("1" * 200, int("1" * 200)),
        ("-0", 0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("~", None),
        ("", None),
        ("null", None),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    resolved = resolve_scalar(text)

    assert resolved == value
    assert type(resolved) is type(value)


def test_not_a_number_is_a_float() -> None:
    value = resolve_scalar(".nan")

    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize("text", ["2026-01-01", "0b11", "1.2.3.4", "0o9", "0xZ", "TrUe"])
def test_everything_else_is_text(text: str) -> None:
    assert resolve_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("64 KiB", 65536),
        ("1MiB", 1 << 20),
        ("1 mib", 1 << 20),
        ("2 GiB", 2 << 30),
        ("10 MB", 10_000_000),
        ("3 kB", 3000),
        ("5 B", 5),
        ("8k", 8192),
    ],
)
def test_sizes_know_binary_and_decimal_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "1.5 MiB", "-1", "1 XiB", "1 MiB x", "٣ MiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    assert parse_size(text) is None
