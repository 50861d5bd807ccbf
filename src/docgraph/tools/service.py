"""`/_tools/…`: a definition checked, tried, explained, inferred, advised on; nothing is stored.

A service like any other: the root role may use it, and whom a rule lets in. What such a caller may
not see elsewhere he does not see here either (`visits`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

import orjson

from docgraph.access.compare import Comparison
from docgraph.access.definitions.imagined import Imagination
from docgraph.access.definitions.limits import DEFINITION_LIMITS
from docgraph.access.explain import Explainer
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import DbAclAuthorizer
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.config.section import Section
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Parsed
from docgraph.exchange.errors import NotFound
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.drafts import Drafts
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.shape import render_error
from docgraph.graphql.sections import Graphql
from docgraph.plugins.binding import bound_path
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.runtime import Blocking, run_blocking
from docgraph.store import Store
from docgraph.tools.advising import Advising
from docgraph.tools.answers import Answers
from docgraph.tools.inferring import Inferring, find_own
from docgraph.tools.realm import Realm
from docgraph.tools.sections import Tools
from docgraph.tools.visits import Visits
from docgraph.tools.wanted import Wanted, read_body, read_parameters, read_wanted

__all__ = ["ToolsService"]

_SHORT: Final = 16_384  # bytes of a body that is read at once
_ASKING: Final = ("query", "variables", "operationName")
_LOOKING: Final = ("roles", "user")
_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "check": ("definition", "texts", "run"),
    "draft": ("app", "definition", *_ASKING, *_LOOKING),
    "plan": ("app", "definition", *_ASKING, *_LOOKING, "run"),
    "matrix": ("app", "definition", *_LOOKING, "request"),
    "infer": ("db", "collections", "sample"),
    "advise": ("app", "definition", "sample"),
    "realm": (),
    "rules": ("rule",),
}
# Also for callers whom `graphql.operations-only` is about: nothing of an app is told or run.
_FOR_BOUND: Final = frozenset({"check", "realm", "rules"})
_POST: Final = ("POST",)
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "matrix": ("GET", "POST"),
    "realm": ("GET",),
    "rules": ("GET", "POST"),
}


@dataclass(frozen=True, slots=True)
class ToolRequest(Parsed):
    """A request to the tool of that name; what it is about, its body says."""

    tool: str = ""


class ToolsService(Service):
    """The tools for authors of apps."""

    name: ClassVar[str] = "tools"
    description: ClassVar[str] = "checks, tries, explains, infers and advises on app definitions"
    part_of: ClassVar[str] = "graphql"
    uri: ClassVar[str] = "/_tools"
    methods: ClassVar[tuple[str, ...]] = _POST
    Config = Tools

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: Tools,
        *,
        registry: PluginRegistry,
        configuration: Mapping[str, Section],
        graphql: Graphql,
        mongo: Mongo,
        users: DbRealmAuthenticator,
        rules: DbAclAuthorizer,
        store: Store,
        blocking: Blocking,
        acl_rules: RuleBook,
        gql_app_definition_cache: Apps,
        imagined_requests: Imagination,
    ) -> None:
        self.config = config
        self.max_body_size = config.max_body_size
        self._base = len(bound_path(self, config))
        self._graphql = graphql
        self._find_own = partial(find_own, graphql, users, rules)
        self._build_realm = partial(
            Realm, book=acl_rules, users_section=users, rules_section=rules, mongo=mongo
        )
        self._build_advising = partial(Advising, settings=graphql, rules=acl_rules, mongo=mongo)
        self._registry = registry
        self._store = store
        self._apps = gql_app_definition_cache
        self._imagination = imagined_requests
        self._lane = blocking.lane("tools", concurrency=1, queue=16)
        comparison = Comparison(graphql, mongo, store, acl_rules, registry)
        self._explainer = Explainer(registry, configuration, acl_rules, comparison)

    async def provision(self) -> None:
        """Find the services that the tools look through."""
        self._visits = visits = Visits(
            graphql=self._registry.find("graphql"),  # type: ignore[arg-type]
            apps=self._apps,
            drafts=Drafts(self._graphql, self._store, self._registry, self._lane),
            limits=self._registry.find(DEFINITION_LIMITS),
            imagination=self._imagination,
            explainer=self._explainer,
            store=self._store,
            registry=self._registry,
        )
        answers = Answers(visits, self._lane)
        realm = self._build_realm(visits, self._lane)
        inferring = Inferring(visits, self._lane, self._graphql.db, self._find_own)
        self._answers: Mapping[str, Callable[[Exchange, Wanted], Awaitable[Any]]] = {
            "check": answers.check,
            "draft": answers.draft,
            "plan": answers.plan,
            "matrix": answers.matrix,
            "infer": inferring.infer,
            "advise": self._build_advising(visits, self._lane).advise,
            "realm": realm.realm,
            "rules": realm.rules,
        }

    def parse(self, exchange: Exchange) -> ToolRequest:
        """Which tool."""
        tool = self._find_tool(exchange)
        if tool not in _MEMBERS:
            tools = ", ".join(_MEMBERS)
            raise NotFound("there is no such tool", hint=f"there are {tools}")
        return ToolRequest(tool=tool)

    def _find_tool(self, exchange: Exchange) -> str:
        """What the path names below that of the service, if it is a single segment."""
        below = exchange.request.segments[self._base :]
        return below[0] if len(below) == 1 else ""

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """POST, where there is a tool; what needs no body can be read."""
        return _METHODS.get(self._find_tool(exchange), _POST)

    def time_limit_ms(self, exchange: Exchange) -> int:
        """That of queries, or its own where that is less: what is tried may be far from ready."""
        limits = (self._graphql.query_time_limit, self.config.query_time_limit)
        return min((limit for limit in limits if limit > 0), default=0)

    async def handle(self, exchange: Exchange) -> Answer:
        """Use the tool."""
        parsed = exchange.parsed
        assert isinstance(parsed, ToolRequest)  # noqa: S101 - `parse` made it
        if parsed.tool not in _FOR_BOUND:
            self._visits.require_freedom(exchange)
        wanted = await self._read(exchange, _MEMBERS[parsed.tool])
        answer = await self._answers[parsed.tool](exchange, wanted)
        if isinstance(answer, Body):
            return answer
        return Body(200, orjson.dumps(answer), "application/json")

    async def _read(self, exchange: Exchange, known: Sequence[str]) -> Wanted:
        request = exchange.request
        if request.method in ("GET", "HEAD"):
            return read_wanted(read_parameters(request, known), known)
        body = await request.read_body()

        def read() -> Wanted:
            return read_wanted(read_body(body, request.content_type), known)

        if len(body) > _SHORT:
            return await run_blocking(self._lane, read)
        content = read_body(body, request.content_type)
        if "definition" in content:  # few bytes of YAML may stand for very many values
            return await run_blocking(self._lane, read_wanted, content, known)
        return read_wanted(content, known)

    def render_error(self, error: DocgraphError) -> Body | None:
        """As the endpoint of the app, where a query is wrong; the general shape otherwise."""
        return render_error(error) if isinstance(error, OperationRefused) else None
