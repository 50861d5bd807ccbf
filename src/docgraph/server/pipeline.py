"""The request, top to bottom; the only place where the stages meet.

    1 route 2 authenticate 3 parse 4 authorize 5 interceptors 6 service 7 interceptors 8 respond

Limits for callers are asked before stage 2 by address, and after it by user. An unknown caller
learns nothing before stage 4: only callers with the permission see whether a path, a method or an
app exists (decision 21), and what of their request cannot be read. Rules judge the request as its
service has parsed it. Stage 8 is `respond.py`; it sees errors as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from docgraph.access.authorize import Authorization
from docgraph.auth.authenticate import Authenticator
from docgraph.exchange import Answer, Exchange
from docgraph.exchange.errors import Forbidden
from docgraph.exchange.pages import Pages
from docgraph.exchange.request import Offload, Parser
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import Point
from docgraph.server.bounds import Bounds
from docgraph.server.interception import Interception
from docgraph.server.limits.limiter import Limiter
from docgraph.server.routes import Route, Routes
from docgraph.server.serve import parse, render, serve

__all__ = ["Pipeline"]


@dataclass(slots=True, eq=False)
class Pipeline:
    """Walks a request down to its service and the answer up again. Never raises."""

    _routes: Routes
    _authenticator: Authenticator
    _authorization: Authorization
    _interception: Interception
    _parser: Parser
    _offload: Offload
    _pages: Pages
    _bounds: Bounds
    _limiter: Limiter | None

    async def answer(self, exchange: Exchange) -> Answer:
        """The answer, whatever happens on the way."""
        route = self._routes.find(exchange.request)
        try:
            answer = await self._walk(exchange, route)
        except (Exception, SystemExit) as error:  # `sys.exit` of a plugin would end the server
            answer = render(error, exchange, route, self._authenticator)
        finally:
            if exchange.visit is not None:
                exchange.visit.end(exchange)
        answer.headers.extend(exchange.headers)
        return answer

    async def _walk(self, exchange: Exchange, route: Route | None) -> Answer:
        early = await self._descend(exchange, route)
        if early is not None:
            return early
        try:
            exchange.answer = await serve(exchange, route)
        except (Exception, SystemExit) as error:
            exchange.answer = render(error, exchange, route, self._authenticator)
        return await self._interception.run(Point.RESPONSE, exchange) or exchange.answer

    async def _descend(self, exchange: Exchange, route: Route | None) -> Answer | None:
        """Stages 2 to 5; an answer where an interceptor has one."""
        self._prepare(exchange, route)
        if self._limiter is not None:
            self._limiter.receive(exchange, route)
        early = await self._interception.run(Point.BEFORE_AUTH, exchange)
        if early is not None:
            return early
        await self._examine(exchange, route)
        return await self._interception.run(Point.AFTER_AUTH, exchange)

    async def readmit(self, exchange: Exchange) -> Exchange:
        """The same request, judged as if it came now; raises what would refuse it."""
        again = Exchange(exchange.request, exchange.id, is_renewal=True)
        route = self._routes.find(exchange.request)
        self._prepare(again, route)
        await self._examine(again, route)
        return again

    async def admit_entry(self, exchange: Exchange) -> Answer | None:
        """A request of a batch, whose caller is known, up to its service; None: go on to that."""
        return await self._descend(exchange, self._routes.find(exchange.request))

    async def serve_entry(self, exchange: Exchange) -> Answer:
        """Its answer; raises why there is none."""
        return await serve(exchange, self._routes.find(exchange.request))

    async def finish_entry(self, exchange: Exchange) -> Answer | None:
        """Its answer as interceptors leave it."""
        return await self._interception.run(Point.RESPONSE, exchange)

    async def _examine(self, exchange: Exchange, route: Route | None) -> None:
        """Stages 2 to 4, in which nothing is answered yet."""
        with self._bounds.examining(exchange):
            with self._bounds.asking_who(route):
                await self._identify(exchange)
            if exchange.visit is not None:
                exchange.visit.identify(exchange.account)
            exchange.parsed = parse(exchange, route)
            await self._admit(exchange, secured=route is None or route.secured)

    def _prepare(self, exchange: Exchange, route: Route | None) -> None:
        exchange.request.pages, exchange.request.offload = self._pages, self._offload
        exchange.admission = self
        if route is not None:
            exchange.service = route.service.name
            exchange.route = route.prefix
        if not exchange.is_entry:  # those have the time, and the reading, of their batch
            if route is not None:
                exchange.request.body_limit = route.service.max_body_size
            exchange.request.parser = self._parser
            exchange.deadline = self._bounds.find_deadline(exchange, route)

    async def _identify(self, exchange: Exchange) -> None:
        """Stage 2: who is calling."""
        if exchange.request.method == "OPTIONS" or exchange.is_entry:
            return
        authentication = await self._authenticator.authenticate(exchange)
        exchange.account = exchange.request.account = authentication.account
        if authentication.refused:
            await self._interception.refuse(exchange, self._authenticator.challenge(exchange))

    async def _admit(self, exchange: Exchange, *, secured: bool) -> None:
        """Stage 4: may they."""
        veto = await self._authorization.find_veto(exchange)
        if veto is not None:
            emit(AccessDenied(exchange.id, veto.authorizer, veto.reason))
            await self._interception.refuse(exchange, Forbidden(veto.reason))
        decision = await self._authorization.find_approval(exchange, secured=secured)
        if decision.allowed:
            exchange.permission = decision.permission
            return
        if exchange.account is None:
            await self._interception.refuse(exchange, self._authenticator.challenge(exchange))
        emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
        await self._interception.refuse(exchange, Forbidden(decision.reason))
