"""Runs the data interceptors around reads and writes, lower priority first.

They may change what is asked and what comes back, or refuse it by raising. One that fails is
reported and fails the operation: an interceptor that hashes or strips must not be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from docgraph.exchange import DataPoint, DocgraphError, Exchange, Resource, Write, WriteResult
from docgraph.observe import emit
from docgraph.observe.events import InterceptorFailed
from docgraph.plugins.kinds import DataInterceptor

__all__ = ["Interceptors"]


class Interceptors:
    """The data interceptors by their point."""

    def __init__(self, interceptors: Iterable[DataInterceptor] = ()) -> None:
        self._at: dict[DataPoint, list[DataInterceptor]] = {point: [] for point in DataPoint}
        self.install(interceptors)

    def install(self, interceptors: Iterable[DataInterceptor]) -> None:
        """Add interceptors; the store exists before the plugins that are given it."""
        for interceptor in interceptors:
            self._at[interceptor.point].append(interceptor)
        for standing in self._at.values():
            standing.sort(key=lambda interceptor: interceptor.priority)

    async def run(
        self, point: DataPoint, exchange: Exchange | None, resource: Resource, subject: Any
    ) -> Any:
        """The subject as the interceptors of that point leave it."""
        for interceptor in self._at[point]:
            if interceptor.resolve(resource):
                subject = await _intercept(interceptor, exchange, resource, subject)
        return subject

    async def run_after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """The result as the interceptors leave it; each sees the write beside it.

        What is written stays written, so one that fails does not keep the others from hearing of
        it. Its error is raised after all of them.
        """
        first: Exception | None = None
        uncertain = result.uncertain
        for interceptor in self._at[DataPoint.AFTER_WRITE]:
            if (uncertain and not interceptor.hears_uncertain) or not interceptor.resolve(resource):
                continue
            try:
                result = await _intercept(interceptor, exchange, resource, (write, result))
            except Exception as error:
                if first is None:
                    first = error
                elif isinstance(error, DocgraphError):  # others have been reported
                    _report(interceptor, exchange, error)
        if first is not None:
            raise first
        return result


async def _intercept(
    interceptor: DataInterceptor, exchange: Exchange | None, resource: Resource, subject: Any
) -> Any:
    try:
        return await interceptor.intercept(exchange, resource, subject)
    except DocgraphError:
        raise  # it refuses, and says why
    except Exception as error:
        _report(interceptor, exchange, error)
        raise


def _report(interceptor: DataInterceptor, exchange: Exchange | None, error: Exception) -> None:
    request_id = exchange.id if exchange else ""
    emit(InterceptorFailed(interceptor.name, interceptor.point, error, request_id))
