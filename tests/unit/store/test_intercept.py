"""The interceptors behind a write: all of them hear of what is done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from docgraph.exchange import DataPoint, Resource, ResourceType, Write, WriteKind, WriteResult
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
    point: ClassVar[DataPoint] = DataPoint.AFTER_WRITE

    def __init__(self, error: Exception | None = None, *, hears_uncertain: bool = False) -> None:
        self.error = error
        self.hears_uncertain = hears_uncertain  # type: ignore[misc]
        self.heard: list[WriteResult] = []

    def resolve(self, resource: Resource) -> bool:
        return True

    async def intercept(self, exchange: Any, resource: Resource, subject: Any) -> WriteResult:
        result: WriteResult = subject[1]
        self.heard.append(result)
        if self.error is not None:
            raise self.error
        return result


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
        await Interceptors(spies).run_after_write(None, PLACE, WRITE, done)

    assert [spy.heard for spy in spies] == [[done]] * 3
    assert [str(one.error) for one in failures] == ["two"]


async def test_of_an_uncertain_write_only_those_hear_that_want_to() -> None:
    spies = [Spy(), Spy(hears_uncertain=True)]

    await Interceptors(spies).run_after_write(None, PLACE, WRITE, WriteResult(uncertain=True))

    assert [len(spy.heard) for spy in spies] == [0, 1]
