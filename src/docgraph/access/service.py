"""`GET /access/explain`: the output of `docgraph access explain` over HTTP, for administrators."""

from __future__ import annotations

from typing import ClassVar

from docgraph.access.db_rules import AUTHORIZER, DbAclAuthorizer
from docgraph.access.dry_run import RequestDryRun
from docgraph.access.explain_decision import Bindings, ExplainedRequest, Explainer
from docgraph.access.rulebook import RuleBook
from docgraph.access.unfiltered_apps import Comparison
from docgraph.codec import JsonMode, encode
from docgraph.config.section import ServiceConfig
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden, RequestError
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import Store


class AccessExplain(Service):
    """Explains decisions to users with the root role only, regardless of rules."""

    name: ClassVar[str] = "accessExplain"
    description: ClassVar[str] = "explains why a request is allowed or denied"
    uri: ClassVar[str] = "/access/explain"
    exact: ClassVar[bool] = True
    Config = ServiceConfig

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: ServiceConfig,
        *,
        registry: PluginRegistry,
        imagined_requests: RequestDryRun,
        graphql: Graphql,
        mongo: Mongo,
        store: Store,
        acl_rules: RuleBook,
        account_bindings: Bindings | None = None,
    ) -> None:
        self.config = config
        self._registry = registry
        comparison = Comparison(graphql, mongo, store, acl_rules, registry)
        self.explainer = Explainer(imagined_requests, acl_rules, comparison, account_bindings)

    async def handle(self, exchange: Exchange) -> Answer:
        """Explain the request given by `user`, `role` (repeated), `method`, `path` and `query`."""
        if not self._is_root(exchange):
            raise Forbidden("only the root role may ask for explanations")
        query = exchange.request.query
        path = query.get("path")
        if path is None or not path.startswith("/"):
            raise RequestError("the parameter path is needed", hint="it begins with a slash")
        question = ExplainedRequest(
            method=(query.get("method") or "GET").upper(),
            path=path,
            query=query.get("query") or "",
            user=query.get("user"),
            roles=tuple(query.get_list("role")),
        )
        explanation = await self.explainer.explain(question)
        body = encode(explanation.to_document(), JsonMode.STANDARD)
        return Body(200, body, "application/json")

    def _is_root(self, exchange: Exchange) -> bool:
        authorizer = self._registry.find(AUTHORIZER)
        if not isinstance(authorizer, DbAclAuthorizer):
            return False
        return authorizer.config.root_role in exchange.roles
