"""Interceptors are called at the points whose methods they have, in order of priority."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from docgraph.exchange import (
    DataPoint,
    Document,
    Exchange,
    Read,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import Conflict, Forbidden
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import InterceptorFailed
from docgraph.plugins.kinds import DataInterceptor
from docgraph.store.intercept import Interceptors

pytestmark = pytest.mark.anyio

PLACE = Resource(ResourceType.COLLECTION, "db", "things")
WRITE = Write(WriteKind.DELETE, filter={"_id": 1})


class Spy(DataInterceptor):
    name: ClassVar[str] = "spy"

    def __init__(self, error: Exception | None = None, *, hears_uncertain: bool = False) -> None:
        self.error = error
        self.hears_uncertain = hears_uncertain  # type: ignore[misc]
        self.heard: list[WriteResult] = []

    def resolve(self, resource: Resource) -> bool:
        return True

    async def after_write(
        self, exchange: Any, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        self.heard.append(result)
        if self.error is not None:
            raise self.error
        return result


class Noting(DataInterceptor):
    """Writes down who was called, on whatever comes by."""

    def __init__(self, mark: str, priority: int, *, concerned: bool = True) -> None:
        self.mark = mark
        self.priority = priority  # type: ignore[misc]
        self.concerned = concerned

    def resolve(self, resource: Resource) -> bool:
        return self.concerned


class NotingReads(Noting):
    name: ClassVar[str] = "notingReads"

    async def before_read(self, exchange: Exchange | None, resource: Resource, read: Read) -> Read:
        return replace(read, filter={**read.filter, self.mark: len(read.filter)})

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        return [*documents, {"by": self.mark}]


class NotingWrites(Noting):
    name: ClassVar[str] = "notingWrites"

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        return replace(write, documents=(*write.documents, {"by": self.mark}))

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        return replace(result, warnings=(*result.warnings, f"{write.kind} {self.mark}"))


class Failing(NotingReads):
    name: ClassVar[str] = "failing"

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        raise RuntimeError("no")


@pytest.fixture
def failures() -> Iterator[list[Event]]:
    events: list[Event] = []

    def hear(event: Event) -> None:
        if isinstance(event, InterceptorFailed):
            events.append(event)

    subscribe(hear)
    yield events
    unsubscribe(hear)


async def test_the_first_error_is_raised_after_all_have_heard_and_no_other_is_lost(
    failures: list[InterceptorFailed],
) -> None:
    spies = [Spy(Conflict("one")), Spy(Forbidden("two")), Spy()]
    done = WriteResult(deleted=1)

    with pytest.raises(Conflict, match="one"):
        await Interceptors(spies).after_write(None, PLACE, WRITE, done)

    assert [spy.heard for spy in spies] == [[done]] * 3
    assert [str(one.error) for one in failures] == ["two"]


async def test_of_an_uncertain_write_only_those_hear_that_want_to() -> None:
    spies = [Spy(), Spy(hears_uncertain=True)]

    await Interceptors(spies).after_write(None, PLACE, WRITE, WriteResult(uncertain=True))

    assert [len(spy.heard) for spy in spies] == [0, 1]


async def test_one_interceptor_stands_at_every_point_whose_method_it_has() -> None:
    interceptors = Interceptors([NotingReads("reads", 1), NotingWrites("writes", 1)])

    assert (await interceptors.before_read(None, PLACE, Read())).filter == {"reads": 0}
    assert await interceptors.after_read(None, PLACE, []) == [{"by": "reads"}]
    assert (await interceptors.before_write(None, PLACE, WRITE)).documents == ({"by": "writes"},)
    assert (await interceptors.after_write(None, PLACE, WRITE, WriteResult())).warnings == (
        "delete writes",
    )


async def test_lower_priority_comes_first_at_every_point_whenever_it_was_installed() -> None:
    interceptors = Interceptors([NotingReads("last", 20), NotingWrites("last", 20)])
    interceptors.install([NotingReads("first", -1), NotingWrites("first", -1)])

    assert (await interceptors.before_read(None, PLACE, Read())).filter == {"first": 0, "last": 1}
    assert await interceptors.after_read(None, PLACE, []) == [{"by": "first"}, {"by": "last"}]
    write = await interceptors.before_write(None, PLACE, WRITE)
    assert write.documents == ({"by": "first"}, {"by": "last"})
    result = await interceptors.after_write(None, PLACE, WRITE, WriteResult())
    assert result.warnings == ("delete first", "delete last")


async def test_a_resource_that_does_not_concern_the_interceptor_passes_it_by() -> None:
    interceptors = Interceptors(
        [NotingReads("reads", 1, concerned=False), NotingWrites("writes", 1, concerned=False)]
    )
    read, result = Read(), WriteResult()

    assert await interceptors.before_read(None, PLACE, read) is read
    assert await interceptors.after_read(None, PLACE, []) == []
    assert await interceptors.before_write(None, PLACE, WRITE) is WRITE
    assert await interceptors.after_write(None, PLACE, WRITE, result) is result


async def test_one_that_breaks_is_reported_with_its_point_and_fails_the_operation(
    failures: list[InterceptorFailed],
) -> None:
    with pytest.raises(RuntimeError, match="no"):
        await Interceptors([Failing("x", 1)]).after_read(None, PLACE, [])

    assert [(one.plugin, one.point) for one in failures] == [("failing", DataPoint.AFTER_READ)]


async def test_portions_pass_interceptors_that_treat_each_document_alone() -> None:
    reads = NotingReads("a", 1)
    reads.takes_portions = True  # type: ignore[misc]
    taken: list[list[Document]] = []

    async def take(documents: list[Document]) -> None:
        taken.append(documents)

    passed = Interceptors([reads]).before_portion(take, None, PLACE)
    assert passed is not None
    await passed([{"_id": 1}])

    assert taken == [[{"_id": 1}, {"by": "a"}]]


@pytest.mark.parametrize(("concerned", "is_passed"), [(True, False), (False, True)])
async def test_an_interceptor_that_wants_all_documents_gets_no_portions(
    concerned: bool, is_passed: bool
) -> None:
    async def take(documents: list[Document]) -> None:
        pass

    interceptors = Interceptors([NotingReads("a", 1, concerned=concerned)])

    assert (interceptors.before_portion(take, None, PLACE) is not None) is is_passed
    assert interceptors.before_portion(None, None, PLACE) is None
