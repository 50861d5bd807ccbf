"""Toolset behind `/_tools`: reads a request, runs the tool, renders the response.

Importing this module imports most of the workbench, so `service` does it at the first request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import orjson

from docgraph.access.author_limits import DEFINITION_LIMITS
from docgraph.access.dry_run import RequestDryRun
from docgraph.access.explain_decision import Explainer
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer
from docgraph.access.unfiltered_apps import Comparison
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.exchange import Answer, Body, Exchange
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.drafts import Drafts
from docgraph.graphql.http.app_access import AppAccess
from docgraph.graphql.sections import Graphql
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.runtime import Lane, run_blocking
from docgraph.store import Store
from docgraph.workbench.advising import Advising
from docgraph.workbench.app_sessions import AppSessions
from docgraph.workbench.inferring import Inferring, find_own
from docgraph.workbench.requests import ToolArguments, read_body, read_parameters, read_wanted
from docgraph.workbench.responses import ToolResponses
from docgraph.workbench.users_and_rules import UsersAndRules

_SHORT: Final = 16_384  # bytes of a body that is parsed on the event loop
# Also for callers whom `graphql.operations-only` restricts: these tools show and run no app.
_FOR_BOUND: Final = frozenset({"check", "realm", "rules"})


class Toolset:
    """The tools for authors of apps."""

    def __init__(  # noqa: PLR0913 - the providers and sections of the service
        self,
        *,
        registry: PluginRegistry,
        graphql: Graphql,
        mongo: Mongo,
        users: DbRealmAuthenticator,
        rules: DbAclAuthorizer,
        store: Store,
        lane: Lane,
        book: RuleBook,
        apps: Apps,
        imagination: RequestDryRun,
    ) -> None:
        self._lane = lane
        comparison = Comparison(graphql, mongo, store, book, registry)
        self._visits = visits = AppSessions(
            access=AppAccess(registry.find("graphql"), apps, imagination),  # type: ignore[arg-type]
            drafts=Drafts(graphql, store, registry, lane),
            limits=registry.find(DEFINITION_LIMITS),
            explainer=Explainer(imagination, book, comparison),
            store=store,
            registry=registry,
        )
        answers = ToolResponses(visits, lane)
        realm = UsersAndRules(
            visits, lane, book=book, users_section=users, rules_section=rules, mongo=mongo
        )
        inferring = Inferring(visits, lane, graphql.db, partial(find_own, graphql, users, rules))
        advising = Advising(visits, lane, settings=graphql, rules=book, mongo=mongo)
        self._answers: Mapping[str, Callable[[Exchange, ToolArguments], Awaitable[Any]]] = {
            "check": answers.check,
            "draft": answers.draft,
            "plan": answers.plan,
            "matrix": answers.matrix,
            "infer": inferring.infer,
            "advise": advising.advise,
            "realm": realm.realm,
            "rules": realm.rules,
        }

    async def run(self, tool: str, known: Sequence[str], exchange: Exchange) -> Answer:
        """Run the tool of this name; `known` are the members that its requests may have."""
        if tool not in _FOR_BOUND:
            self._visits.require_freedom(exchange)
        wanted = await self._read(exchange, known)
        answer = await self._answers[tool](exchange, wanted)
        if isinstance(answer, Body):
            return answer
        return Body(200, orjson.dumps(answer), "application/json")

    async def _read(self, exchange: Exchange, known: Sequence[str]) -> ToolArguments:
        request = exchange.request
        if request.method in ("GET", "HEAD"):
            return read_wanted(read_parameters(request, known), known)
        body = await request.read_body()

        def read() -> ToolArguments:
            return read_wanted(read_body(body, request.content_type), known)

        if len(body) > _SHORT:
            return await run_blocking(self._lane, read)
        content = read_body(body, request.content_type)
        if "definition" in content:  # a few bytes of YAML may expand to very many values
            return await run_blocking(self._lane, read_wanted, content, known)
        return read_wanted(content, known)
