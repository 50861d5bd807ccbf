"""The interceptors of one point, in their order; what they answer is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docgraph.exchange import Answer, Exchange
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.server.answers import check_answer

__all__ = ["intercept"]


async def intercept(
    interceptors: Mapping[Point, Sequence[Interceptor]], point: Point, exchange: Exchange
) -> Answer | None:
    """The answer of the first that has one; of those that see the answer, what they make of it."""
    for interceptor in interceptors[point]:
        if interceptor.resolve(exchange):
            answer = await interceptor.handle(exchange)
            if answer is not None:
                exchange.answer = check_answer(answer, interceptor)
                if point is not Point.RESPONSE:
                    return answer
            elif point is Point.RESPONSE:
                check_answer(exchange.answer, interceptor)  # it may have changed that one
    return exchange.answer if point is Point.RESPONSE else None
