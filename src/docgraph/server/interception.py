"""Run the interceptors of a point, in order of priority."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from docgraph.exchange import Answer, DocgraphError, Exchange
from docgraph.exchange.errors import Forbidden
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.server.answers import check_answer


class Interception:
    """The interceptors by point."""

    def __init__(self, interceptors: Mapping[Point, Sequence[Interceptor]]) -> None:
        self._interceptors = interceptors

    async def run(self, point: Point, exchange: Exchange) -> Answer | None:
        """Return the answer that ends the request early, if any; at `response` the one to send."""
        for interceptor in self._interceptors[point]:
            if interceptor.resolve(exchange):
                answer = await interceptor.handle(exchange)
                if answer is not None:
                    exchange.answer = check_answer(answer, interceptor)
                    if point is not Point.RESPONSE:
                        return answer
                elif point is Point.RESPONSE:
                    check_answer(exchange.answer, interceptor)  # it may have changed that one
        return exchange.answer if point is Point.RESPONSE else None

    async def surround(self, exchange: Exchange, examine: Callable[[], Awaitable[None]]) -> None:
        """Check credentials; new ones are a login like any other, and an answer rejects it."""
        if exchange.is_renewal:
            await examine()
            return
        early = await self.run(Point.BEFORE_AUTH, exchange)  # the guard counts the login
        if early is None:
            await examine()
            early = await self.run(Point.AFTER_AUTH, exchange)
        if early is not None:
            raise Forbidden("an interceptor answered the request")

    async def reject(self, exchange: Exchange, error: DocgraphError) -> None:
        """Raise the error, after the interceptors of failed logins have run."""
        exchange.rejection = error
        if not exchange.is_renewal:  # an expired session is no failed login
            await self.run(Point.AFTER_FAILED_AUTH, exchange)
        raise error
