"""Toolset behind `/_tools`: reads a request, runs the tool, renders the response.

Importing this module imports most of the workbench, so `service` does it at the first request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from docgraph.access.author_limits import DEFINITION_LIMITS
from docgraph.access.dry_run import RequestDryRun
from docgraph.access.explain_decision import Bindings, Explainer
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer
from docgraph.access.service_comparison import Comparison
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.authoring.app_sessions import AppSessions
from docgraph.authoring.app_versions import AppVersions
from docgraph.authoring.author_tool import AuthorTool, OwnPlaces, ToolAccess
from docgraph.authoring.requests import ToolArguments, read_body, read_parameters, read_wanted
from docgraph.authoring.responses import ToolResponses
from docgraph.authoring.users_and_rules import UsersAndRules
from docgraph.exchange import Answer, Body, Exchange
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.definition_writes import Drafts
from docgraph.graphql.errors import OperationsOnly
from docgraph.graphql.http.app_access import AppAccess
from docgraph.graphql.sections import Graphql
from docgraph.plugins.packages import TOOLS, list_parts, load_part
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.runtime import Lane, allocations, run_blocking
from docgraph.store import Store

_Answering = Callable[[Exchange, ToolArguments], Awaitable[Any]]
_ASKING: Final = ("query", "variables", "operationName")
_LOOKING: Final = ("roles", "user")
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
        dry_runs: RequestDryRun,
        bindings: Bindings | None = None,
    ) -> None:
        self._lane = lane
        comparison = Comparison(graphql, mongo, store, book, registry, apps)
        self._sessions = sessions = AppSessions(
            # `/_tools` is part of the plugin `graphql`, which is therefore enabled.
            access=AppAccess(registry.find("graphql"), apps, dry_runs),  # type: ignore[arg-type]
            drafts=Drafts(graphql, store, registry, lane),
            limits=registry.find(DEFINITION_LIMITS),
            explainer=Explainer(dry_runs, book, comparison, bindings),
            store=store,
            registry=registry,
        )
        answers = ToolResponses(sessions, lane)
        realm = UsersAndRules(
            sessions, lane, book=book, users_section=users, rules_section=rules, mongo=mongo
        )
        places = OwnPlaces.of(graphql, users, rules)
        access = ToolAccess(sessions, lane, graphql, rules=book, mongo=mongo, own=places)
        self._answers: dict[str, tuple[Sequence[str], _Answering]] = {
            "check": (("definition", "texts", "run"), answers.check),
            "draft": (("app", "definition", *_ASKING, *_LOOKING), answers.draft),
            "plan": (("app", "definition", *_ASKING, *_LOOKING, "run"), answers.plan),
            "matrix": (("app", "definition", *_LOOKING, "request"), answers.matrix),
            "history": (("app", "version", "since"), AppVersions(answers, graphql).history),
            "realm": ((), realm.realm),
            "rules": (("rule",), realm.rules),
        }
        for name in list_parts(TOOLS):  # of installed packages
            tool: AuthorTool = load_part(TOOLS, name)(access)
            self._answers[name] = (tool.members, tool.answer)

    async def run(self, tool: str, exchange: Exchange) -> Answer:
        if tool not in _FOR_BOUND and self._sessions.access.graphql.is_bound(exchange.account):
            raise OperationsOnly
        members, run = self._answers[tool]
        answer = await run(exchange, await self._read(exchange, members))
        if isinstance(answer, Body):
            return answer
        return Body(200, allocations.dumps(answer), "application/json")

    async def _read(self, exchange: Exchange, members: Sequence[str]) -> ToolArguments:
        request = exchange.request
        if request.method in ("GET", "HEAD"):
            return read_wanted(read_parameters(request, members), members)
        body = await request.read_body()

        def read() -> ToolArguments:
            return read_wanted(read_body(body, request.content_type), members)

        if len(body) > _SHORT:
            return await run_blocking(self._lane, read)
        content = read_body(body, request.content_type)
        if "definition" in content:  # a few bytes of YAML may expand to very many values
            return await run_blocking(self._lane, read_wanted, content, members)
        return read_wanted(content, members)
