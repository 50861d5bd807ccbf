"""Request pipeline: the stages of a request, from routing to the response.

    1 route 2 authenticate 3 parse 4 authorize 5 interceptors 6 service 7 interceptors 8 respond

Rate limits by address are checked before stage 2, those by user after it. A caller who is not
authenticated learns nothing before stage 4: only callers with the permission see whether a path, a
method or an app exists (decision 21), and why their request is invalid. Rules evaluate the request
as its service has parsed it. Stage 8 is `respond.py`; it handles errors as well.
"""

from __future__ import annotations

from dataclasses import dataclass

from docgraph.access.authorize import Authorization
from docgraph.auth.authenticate import AuthenticateStage
from docgraph.exchange import Answer, Exchange
from docgraph.exchange.errors import Forbidden
from docgraph.exchange.exchange import releasing_rate_limit
from docgraph.exchange.origin import OriginPolicy
from docgraph.exchange.request import Offload, Parser
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import Point
from docgraph.server.deadlines import RequestDeadlines
from docgraph.server.interception import Interception
from docgraph.server.rate_limits import Limiter
from docgraph.server.routes import Route, Routes
from docgraph.server.serve import parse, render, serve


@dataclass(slots=True, eq=False)
class Pipeline:
    """Runs the stages of a request and returns its answer. Never raises."""

    _routes: Routes
    _authentication: AuthenticateStage
    _authorization: Authorization
    _interception: Interception
    _parser: Parser
    _offload: Offload
    _origins: OriginPolicy
    _deadlines: RequestDeadlines
    _limiter: Limiter | None

    async def answer(self, exchange: Exchange) -> Answer:
        """Return the answer, or the response to any error."""
        route = self._routes.find(exchange.request)
        try:
            answer = await self._run_to_service(exchange, route)
            if answer is None:
                try:
                    answer = exchange.answer = await serve(exchange, route)
                except (Exception, SystemExit) as error:
                    answer = exchange.answer = render(error, exchange, route, self._authentication)
                if self._interception.changes_responses:
                    answer = await self._interception.run(Point.RESPONSE, exchange) or answer
        except (Exception, SystemExit) as error:  # `sys.exit` of a plugin would end the server
            answer = render(error, exchange, route, self._authentication)
        finally:
            if exchange.visit is not None:
                exchange.visit.end(exchange)
        if exchange.headers:
            answer.headers.extend(exchange.headers)
        return answer

    async def _run_to_service(self, exchange: Exchange, route: Route | None) -> Answer | None:
        """Run stages 2 to 5; returns an answer if an interceptor supplies one."""
        self._prepare(exchange, route)
        if self._limiter is not None:
            self._limiter.receive(exchange, route)
        early = await self._interception.run(Point.BEFORE_AUTH, exchange)
        if early is not None:
            return early
        await self._deadlines.limit(exchange, self._examine(exchange, route))
        return await self._interception.run(Point.AFTER_AUTH, exchange)

    async def readmit(
        self, exchange: Exchange, *, is_counted: bool = False, is_renewal: bool = True
    ) -> Exchange:
        """Authorize the same request again with current permissions; raises its rejection."""
        again = Exchange(exchange.request, exchange.id, is_renewal=is_renewal)
        route = self._routes.find(exchange.request)
        self._prepare(again, route)
        if is_counted and self._limiter is not None:
            self._limiter.receive(again, route)
        with releasing_rate_limit(again):
            await self._interception.surround(
                again, lambda: self._deadlines.limit(again, self._examine(again, route))
            )
        return again

    async def admit_entry(self, exchange: Exchange) -> Answer | None:
        """Run a batch entry, whose caller is authenticated, up to its service; None: continue."""
        return await self._run_to_service(exchange, self._routes.find(exchange.request))

    async def serve_entry(self, exchange: Exchange) -> Answer:
        """Return the entry's answer; raises its error."""
        return await serve(exchange, self._routes.find(exchange.request))

    async def finish_entry(self, exchange: Exchange) -> Answer | None:
        """Return the entry's answer after the interceptors."""
        return await self._interception.run(Point.RESPONSE, exchange)

    async def _examine(self, exchange: Exchange, route: Route | None) -> None:
        """Run stages 2 to 4, which answer nothing yet."""
        if exchange.request.method != "OPTIONS" and not exchange.is_entry:
            if route is None or not route.is_for_everybody:
                await self._identify(exchange)
            else:
                await self._deadlines.limit_briefly(self._identify(exchange))
        if exchange.visit is not None:
            exchange.visit.identify(exchange.account)
        parsed = exchange.parsed = parse(exchange, route)
        is_later = parsed and parsed.is_authorized_later and exchange.is_authorized_later
        veto = await self._authorization.find_veto(exchange)
        if veto is not None:
            emit(AccessDenied(exchange.id, veto.authorizer, veto.reason))
            await self._interception.reject(exchange, Forbidden(veto.reason))
        secured = (route is None or route.secured) and not is_later
        decision = await self._authorization.find_approval(exchange, secured=secured)
        if decision.allowed:
            exchange.permission = decision.permission
            return
        if exchange.account is None:
            await self._interception.reject(exchange, self._authentication.challenge(exchange))
        emit(AccessDenied(exchange.id, decision.authorizer, decision.reason))
        await self._interception.reject(exchange, Forbidden(decision.reason))

    def _prepare(self, exchange: Exchange, route: Route | None) -> None:
        exchange.request.pages, exchange.request.offload = self._origins, self._offload
        exchange.admission = self
        if route is not None:
            exchange.service = route.service.name
            exchange.route = route.prefix
        if not exchange.is_entry:  # entries have the deadline and the limits of their batch
            if route is not None:
                exchange.request.body_limit = route.service.max_body_size
            exchange.request.parser = self._parser
            exchange.deadline = self._deadlines.find_deadline(exchange, route)

    async def _identify(self, exchange: Exchange) -> None:
        authentication = await self._authentication.authenticate(exchange)
        exchange.account = exchange.request.account = authentication.account
        if authentication.refused:
            await self._interception.reject(exchange, self._authentication.challenge(exchange))
