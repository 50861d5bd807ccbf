"""Data interception points: an interceptor runs at the points whose methods it has.

An interceptor without any would never be called, so it is rejected before it is constructed.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from docgraph.exchange import DataPoint, StartupError
from docgraph.plugins.discover import FoundPlugin
from docgraph.plugins.kinds import DataInterceptor, Kind

_METHODS: Final[Mapping[DataPoint, str]] = MappingProxyType(
    {
        DataPoint.BEFORE_WRITE: "before_write",
        DataPoint.AFTER_WRITE: "after_write",
        DataPoint.BEFORE_READ: "before_read",
        DataPoint.AFTER_READ: "after_read",
    }
)


def stands_at(interceptor: type[object], point: DataPoint) -> bool:
    """Return whether the class has its own method for that point."""
    method = getattr(interceptor, _METHODS[point], None)
    return method is not None and method is not getattr(DataInterceptor, _METHODS[point])


def check_points(found: FoundPlugin) -> None:
    """Raise `StartupError` for a data interceptor that would never be called."""
    plugin = found.plugin
    if plugin.kind is not Kind.DATA_INTERCEPTOR:
        return
    title = f"the data interceptor {found.name!r} from {found.origin}"
    if hasattr(plugin, "intercept"):
        point = getattr(plugin, "point", None)
        known = [point] if isinstance(point, DataPoint) else list(DataPoint)
        raise StartupError(
            f"{title} has a method `intercept`, which is no longer called",
            hint=f"write {' or '.join(map(_describe, known))} in its place, and take out `point`",
        )
    if not any(stands_at(plugin, point) for point in DataPoint):
        raise StartupError(
            f"{title} has none of the methods of a data interceptor",
            hint=f"write one or more of {', '.join(map(_describe, DataPoint))}",
        )


def _describe(point: DataPoint) -> str:
    _, *parameters = inspect.signature(getattr(DataInterceptor, _METHODS[point])).parameters
    return f"`{_METHODS[point]}({', '.join(parameters)})`"
