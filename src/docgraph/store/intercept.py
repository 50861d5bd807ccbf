"""Data interceptors: run them around reads and writes, lower priority first.

They may change requests and results, or reject them by raising. A failure of an interceptor is
reported and fails the operation: an interceptor that hashes or strips must not be skipped.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from docgraph.exchange import (
    DataPoint,
    DocgraphError,
    Document,
    Exchange,
    Read,
    Resource,
    Write,
    WriteResult,
)
from docgraph.observe import emit
from docgraph.observe.events import InterceptorFailed
from docgraph.plugins.check import has_method_for
from docgraph.plugins.kinds import DataInterceptor
from docgraph.store.driver.portions import Take

_Subject = TypeVar("_Subject", Read, Write, list[Document])
_Returned = TypeVar("_Returned", Read, Write, list[Document], WriteResult)

# The interceptor, and its method for the point.
_InterceptStep = tuple[
    DataInterceptor, Callable[[Exchange | None, Resource, _Subject], Awaitable[_Subject]]
]


class Interceptors:
    """The data interceptors by their points, computed once: every read and write uses them."""

    def __init__(self, interceptors: Iterable[DataInterceptor] = ()) -> None:
        self._installed: list[DataInterceptor] = []
        self.install(interceptors)

    def install(self, interceptors: Iterable[DataInterceptor]) -> None:
        """Add interceptors; the store exists before the plugins that receive it."""
        self._installed += interceptors
        self._installed.sort(key=lambda interceptor: interceptor.priority)
        self._before_read: list[_InterceptStep[Read]] = [
            (plugin, plugin.before_read) for plugin in self._standing_at(DataPoint.BEFORE_READ)
        ]
        self._after_read: list[_InterceptStep[list[Document]]] = [
            (plugin, plugin.after_read) for plugin in self._standing_at(DataPoint.AFTER_READ)
        ]
        self._before_write: list[_InterceptStep[Write]] = [
            (plugin, plugin.before_write) for plugin in self._standing_at(DataPoint.BEFORE_WRITE)
        ]
        self._after_write = self._standing_at(DataPoint.AFTER_WRITE)

    def _standing_at(self, point: DataPoint) -> list[DataInterceptor]:
        return [plugin for plugin in self._installed if has_method_for(type(plugin), point)]

    def before_read(
        self, exchange: Exchange | None, resource: Resource, read: Read
    ) -> Awaitable[Read]:
        return _run(DataPoint.BEFORE_READ, self._before_read, exchange, resource, read)

    def before_portion(
        self, take: Take | None, exchange: Exchange | None, resource: Resource
    ) -> Take | None:
        """Return a `take` that receives portions of documents after the interceptors.

        Return None without `take`, or if one of the interceptors needs all documents together.
        """
        steps = [plugin for plugin, _ in self._after_read if plugin.resolve(resource)]
        if take is None or not all(step.takes_portions for step in steps):
            return None
        if not any(step.changes_read(exchange, resource) for step in steps):
            return take

        async def pass_changed(documents: list[Document]) -> None:
            await take(await self.after_read(exchange, resource, documents))

        return pass_changed

    def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> Awaitable[list[Document]]:
        return _run(DataPoint.AFTER_READ, self._after_read, exchange, resource, documents)

    def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Awaitable[Write]:
        return _run(DataPoint.BEFORE_WRITE, self._before_write, exchange, resource, write)

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """Return the result after the interceptors; each of them also gets the write.

        The write stays applied, so a failing interceptor does not prevent the others from being
        notified. Its error is raised after all of them.
        """
        first: Exception | None = None
        uncertain = result.uncertain
        for interceptor in self._after_write:
            if (uncertain and not interceptor.hears_uncertain) or not interceptor.resolve(resource):
                continue
            try:
                returned = await interceptor.after_write(exchange, resource, write, result)
                result = _check(returned, result)
            except Exception as error:
                if first is not None or not isinstance(error, DocgraphError):
                    _report(interceptor, DataPoint.AFTER_WRITE, exchange, error)
                if first is None:
                    first = error
        if first is not None:
            raise first
        return result


async def _run(
    point: DataPoint,
    steps: Sequence[_InterceptStep[_Subject]],
    exchange: Exchange | None,
    resource: Resource,
    subject: _Subject,
) -> _Subject:
    for interceptor, change in steps:
        if not interceptor.resolve(resource):
            continue
        try:
            subject = _check(await change(exchange, resource, subject), subject)
        except DocgraphError:
            raise  # it rejects the request and says why
        except Exception as error:
            _report(interceptor, point, exchange, error)
            raise
    return subject


def _check(returned: _Returned, given: _Returned) -> _Returned:
    """Return the value of an interceptor, if it can replace the given one."""
    if isinstance(returned, type(given)):
        return returned
    raise TypeError(
        f"the interceptor returned {type(returned).__name__} in place of a {type(given).__name__}: "
        "it returns what it was given, or a changed copy"
    )


def _report(
    interceptor: DataInterceptor, point: DataPoint, exchange: Exchange | None, error: Exception
) -> None:
    request_id = exchange.id if exchange else ""
    emit(InterceptorFailed(interceptor.name, point, error, request_id))
