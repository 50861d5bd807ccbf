"""Values of the moment: `@now` and the like in a filter that is used long after its request.

A change stream renders its filters once. A value of the moment in them has a mark, and gets its
value each time the filter is used. Two filters that differ in the time alone are therefore equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from docgraph.variables.resolvers import Fresh
from docgraph.variables.variable_names import REQUEST_TIMES, is_momentary


class _Moment:
    """A mark; `at` returns its value at a time."""

    __slots__ = ()

    def at(self, now: datetime) -> Any:
        raise NotImplementedError


class _Time(_Moment, datetime):
    def at(self, now: datetime) -> Any:
        return now


class _Seconds(_Moment, int):
    def at(self, now: datetime) -> Any:
        return int(now.replace(tzinfo=UTC).timestamp())


class _Text(_Moment, str):
    __slots__ = ()

    def at(self, now: datetime) -> Any:
        return now.replace(tzinfo=UTC).isoformat(timespec="milliseconds")


class _Random(_Moment, str):
    __slots__ = ()

    def at(self, now: datetime) -> Any:
        return Fresh(int(self))()


NOW: Final = _Time(1970, 1, 1)


def mark_moments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of variables with marks in place of those of the moment."""
    return {name: _mark(value) if is_momentary(name) else value for name, value in values.items()}


def _mark(value: Any) -> Any:
    match value:
        case Fresh():
            return _Random(value.bits)
        case datetime():
            return NOW
        case int():
            return _Seconds(0)
        case str():
            return _Text("")
        case Mapping():
            times = {name: _mark(value[name]) for name in REQUEST_TIMES if name in value}
            return {**value, **times}
    return value


def has_moments(value: Any) -> bool:
    """Check if a rendered filter or pipeline contains a mark."""
    if isinstance(value, Mapping):
        return any(map(has_moments, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_moments, value))
    return isinstance(value, _Moment)


def fill_moments(value: Any) -> Any:
    """Return the filter or pipeline with the current values in place of the marks."""
    now = datetime.now(UTC).replace(tzinfo=None)
    return _fill(value, now.replace(microsecond=now.microsecond // 1000 * 1000))


def _fill(value: Any, now: datetime) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill(inner, now) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(inner, now) for inner in value]
    return value.at(now) if isinstance(value, _Moment) else value
