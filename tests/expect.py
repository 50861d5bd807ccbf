"""What a test knows and a type checker does not."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """The value, which has to be one."""
    assert value is not None
    return value


def keep(values: list[T], value: T) -> bool:
    """Append the value, and return True: for fakes that are one expression."""
    values.append(value)
    return True
