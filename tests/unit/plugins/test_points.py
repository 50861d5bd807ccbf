"""Data interceptors that nothing would call do not start."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from docgraph.exchange import DataPoint, Resource, StartupError
from docgraph.plugins import FoundPlugin, assemble
from docgraph.plugins.check import stands_at
from docgraph.plugins.kinds import DataInterceptor, Kind


class Idle(DataInterceptor):
    name: ClassVar[str] = "idle"

    def resolve(self, resource: Resource) -> bool:
        return True


class Old(Idle):
    name: ClassVar[str] = "old"

    async def intercept(self, exchange: Any, resource: Any, subject: Any) -> Any:
        return subject


class OldAfterWrite(Old):
    name: ClassVar[str] = "oldAfterWrite"
    point: ClassVar[DataPoint] = DataPoint.AFTER_WRITE


class HalfNew(OldAfterWrite):
    name: ClassVar[str] = "halfNew"

    async def before_write(self, exchange: Any, resource: Any, write: Any) -> Any:
        return write


class Reader(Idle):
    name: ClassVar[str] = "reader"

    async def after_read(self, exchange: Any, resource: Any, documents: Any) -> Any:
        return documents


class InheritingReader(Reader):
    name: ClassVar[str] = "inheritingReader"


class Structural:
    """A plugin of the right shape that subclasses nothing."""

    kind: ClassVar[Kind] = Kind.DATA_INTERCEPTOR

    async def before_write(self, exchange: Any, resource: Any, write: Any) -> Any:
        return write


def start(plugin: type[DataInterceptor]) -> None:
    assemble([FoundPlugin(plugin, "the plugins directory")], {}, {})


def test_one_without_any_method_is_refused_and_told_what_there_is() -> None:
    with pytest.raises(StartupError, match="'idle' from the plugins directory has none") as refused:
        start(Idle)

    assert refused.value.hint == (
        "write one or more of `before_write(exchange, resource, write)`, "
        "`after_write(exchange, resource, write, result)`, "
        "`before_read(exchange, resource, read)`, `after_read(exchange, resource, documents)`"
    )


@pytest.mark.parametrize("plugin", [OldAfterWrite, HalfNew])
def test_one_of_the_old_form_is_told_what_to_write_instead(plugin: type[DataInterceptor]) -> None:
    with pytest.raises(StartupError, match="`intercept`, which is no longer called") as refused:
        start(plugin)

    assert refused.value.hint == (
        "write `after_write(exchange, resource, write, result)` in its place, and take out `point`"
    )


def test_one_of_the_old_form_without_a_point_is_told_all_methods() -> None:
    with pytest.raises(StartupError) as refused:
        start(Old)

    assert refused.value.hint is not None
    assert " or `after_read(exchange, resource, documents)` in its place" in refused.value.hint


@pytest.mark.parametrize("plugin", [Reader, InheritingReader])
def test_one_method_is_enough_and_may_be_inherited(plugin: type[DataInterceptor]) -> None:
    start(plugin)

    assert [point for point in DataPoint if stands_at(plugin, point)] == [DataPoint.AFTER_READ]


def test_subclassing_is_not_required() -> None:
    points = [point for point in DataPoint if stands_at(Structural, point)]

    assert points == [DataPoint.BEFORE_WRITE]
