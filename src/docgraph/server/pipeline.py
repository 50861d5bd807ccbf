"""The request, top to bottom; the only place where the stages meet.

    1 route   2 authenticate   3 parse   4 authorize   5 interceptors   6 service   7 interceptors
    8 respond

Limits for callers, where there are any, are asked before stage 2 by address, and after it by user.
An unknown caller learns nothing before stage 4: only callers with the permission see whether a
path, a method or an app exists (decision 21), and what of their request cannot be read. Rules judge
the request as its service has parsed it. Stage 8 is `respond.py`; it sees errors as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from docgraph.access.authorize import Authorization
from docgraph.auth.authenticate import Authenticator
from docgraph.exchange import Answer, DocgraphError, Exchange
from docgraph.exchange.errors import Forbidden
from docgraph.exchange.pages import Pages
from docgraph.exchange.request import Parser
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.server.bounds import Bounds
from docgraph.server.intercept import intercept
from docgraph.server.limits.limiter import Limiter, Visit
from docgraph.server.routes import Route, Routes
from docgraph.server.serve import parse, render, serve

__all__ = ["Pipeline"]


class Pipeline:
    """Walks a request down to its service and the answer up again. Never raises."""

    def __init__(  # noqa: PLR0913, PLR0917 - the stages
        self,
        routes: Routes,
        authenticator: Authenticator,
        authorization: Authorization,
        interceptors: Mapping[Point, Sequence[Interceptor]],
        parser: Parser,
        pages: Pages,
        bounds: Bounds,
        limiter: Limiter | None = None,
    ) -> None:
        self._limiter = limiter
        self._bounds = bounds
        self._routes = routes
        self._authenticator = authenticator
        self._authorization = authorization
        self._interceptors = interceptors
        self._intercept = partial(intercept, interceptors)
        self._parser, self._pages = parser, pages

    def is_probe(self, exchange: Exchange) -> bool:
        """Whether the service that is asked says how the server is."""
        route = self._routes.find(exchange.request)
        return route is not None and route.is_probe

    async def answer(self, exchange: Exchange) -> Answer:
        """The answer, whatever happens on the way."""
        route = self._routes.find(exchange.request)
        visit = None if self._limiter is None else self._limiter.open_visit(exchange, route)
        try:
            answer = await self._walk(exchange, route, visit)
        except (Exception, SystemExit) as error:  # `sys.exit` of a plugin would end the server
            answer = render(error, exchange, route, self._authenticator)
        finally:
            if visit is not None:
                visit.end(exchange)
        answer.headers.extend(exchange.headers)
        return answer

    async def _walk(self, exchange: Exchange, route: Route | None, visit: Visit | None) -> Answer:
        self._prepare(exchange, route)
        if visit is not None:
            visit.arrive()
        early = await self._intercept(Point.BEFORE_AUTH, exchange)
        if early is not None:
            return early
        await self._examine(exchange, route, visit)
        early = await self._intercept(Point.AFTER_AUTH, exchange)
        if early is not None:
            return early
        try:
            exchange.answer = await serve(exchange, route)
        except (Exception, SystemExit) as error:
            exchange.answer = render(error, exchange, route, self._authenticator)
        if not self._interceptors[Point.RESPONSE]:
            return exchange.answer
        return await self._intercept(Point.RESPONSE, exchange) or exchange.answer

    async def readmit(self, exchange: Exchange) -> Exchange:
        """The same request, judged as if it came now; raises what would refuse it."""
        again = Exchange(exchange.request, exchange.id, is_renewal=True)
        route = self._routes.find(exchange.request)
        self._prepare(again, route)
        await self._examine(again, route, None)
        return again

    async def _examine(self, exchange: Exchange, route: Route | None, visit: Visit | None) -> None:
        """Stages 2 to 4, in which nothing is answered yet."""
        with self._bounds.examining(exchange):
            with self._bounds.asking_who(route):
                await self._identify(exchange)
            if visit is not None:
                visit.identify(exchange.account)
            exchange.parsed = parse(exchange, route)
            await self._admit(exchange, secured=route is None or route.secured)

    def _prepare(self, exchange: Exchange, route: Route | None) -> None:
        exchange.request.parser = self._parser
        exchange.request.pages = self._pages
        if route is not None:
            exchange.service = route.service.name
            exchange.request.body_limit = route.service.max_body_size
        exchange.deadline = self._bounds.find_deadline(exchange, route)
        exchange.admission = self

    async def _identify(self, exchange: Exchange) -> None:
        """Stage 2: who is calling."""
        if exchange.request.method == "OPTIONS":
            return
        authentication = await self._authenticator.authenticate(exchange)
        exchange.account = exchange.request.account = authentication.account
        if authentication.refused:
            await self._refuse(exchange, self._authenticator.challenge(exchange))

    async def _admit(self, exchange: Exchange, *, secured: bool) -> None:
        """Stage 4: may they."""
        veto = await self._authorization.find_veto(exchange)
        if veto is not None:
            emit(AccessDenied(exchange.id, veto.authorizer, veto.reason))
            await self._refuse(exchange, Forbidden(veto.reason))
        decision = await self._authorization.find_approval(exchange, secured=secured)
        if decision.allowed:
            exchange.permission = decision.permission
            return
        if exchange.account is None:
            await self._refuse(exchange, self._authenticator.challenge(exchange))
        emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
        await self._refuse(exchange, Forbidden(decision.reason))

    async def _refuse(self, exchange: Exchange, error: DocgraphError) -> None:
        if not exchange.is_renewal:  # a session that has ended is no failed login
            await self._intercept(Point.AFTER_FAILED_AUTH, exchange)
        raise error
