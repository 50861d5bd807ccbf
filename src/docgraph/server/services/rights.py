"""`GET /_tools/rights`: the methods that the caller may use at the given paths.

It needs no allower, because it shows only what the caller could find out by trying. The same
vetoers, allowers and rules decide as for the requests themselves.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, Final

import orjson

from docgraph.access.dry_run import RequestDryRun
from docgraph.access.mongo_conditions import find_flag
from docgraph.access.rule import roles_of
from docgraph.access.rulebook import RuleBook
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import encode_path
from docgraph.plugins.kinds import Service
from docgraph.server.services.sections import OwnRights as OwnRightsConfig

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
MAX_PATHS: Final = 40  # each evaluates the rules for every method, also for anonymous callers
_LONGEST_MS: Final = 10_000
# Conditions on the body or the query parameters, which a request without them cannot meet.
_ON_CONTENT: Final = re.compile(
    r"(?:not )?(?:bson-request-|qparams-|request-(?:larg|small)er-than|(?:min|max)-content-size)"
    r"|.*@(?:request\.(?:body|queryString)|qparams|filter)\b",
    re.DOTALL,
)


class OwnRights(Service):
    """Lists the methods that the caller may use."""

    name: ClassVar[str] = "ownRights"
    description: ClassVar[str] = "lists the methods that the caller may use at given paths"
    uri: ClassVar[str] = "/_tools/rights"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    Config = OwnRightsConfig

    def __init__(
        self, config: OwnRightsConfig, imagined_requests: RequestDryRun, acl_rules: RuleBook
    ) -> None:
        self.config = config
        self._dry_run = imagined_requests
        self._book = acl_rules

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return a short limit: a slow list is useless."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the caller, and the permitted methods for each `path`."""
        paths = list(dict.fromkeys(exchange.request.query.get_list("path")))
        if len(paths) > MAX_PATHS:
            raise RequestError(
                f"{len(paths)} paths are too many", hint=f"send at most {MAX_PATHS} in a request"
            )
        for path in paths:
            if not path.startswith("/"):
                raise RequestError(f"{path!r} is no path", hint="a path begins with a slash")
        account = exchange.account
        content = {
            "user": account.name if account else None,
            "roles": list(account.roles) if account else [],
            "services": await self._find_services(exchange),
            "rights": [await self._find_rights(exchange, path) for path in paths],
        }
        headers = [("Cache-Control", "no-store")]
        return Body(200, orjson.dumps(content), "application/json", headers)

    async def _find_services(self, exchange: Exchange) -> list[str]:
        """Return the services that permit a GET, or that a rule for the caller can lead to."""
        found = set()
        for prefix, service in self._dry_run.services:
            _, decision = await self._dry_run.decide_get(exchange, encode_path(prefix) or "/")
            if decision is not None:
                found.add(service.name)
        index = await self._book.find_rules(roles_of(exchange.account))
        reached = {prefix for rule in index.rules for prefix in rule.predicate.reach.prefixes}
        for prefix in reached:
            if (service_at := self._dry_run.find_service(prefix)) is not None:
                found.add(service_at.name)
            below = (one for at, one in self._dry_run.services if at[: len(prefix)] == prefix)
            found |= {one.name for one in below}
        return sorted(found)

    async def _find_rights(self, outer: Exchange, path: str) -> dict[str, Any]:
        allowed: list[str] = []
        conditional: list[str] = []
        partial: list[str] = []
        for method in METHODS:
            exchange = self._dry_run.check_get(outer, path, method)
            if not exchange.service:
                continue
            veto, decision = await self._dry_run.decide(exchange)
            if decision.allowed:
                allowed.append(method)
                permission = decision.permission
                if permission is not None and permission.project_response is not None:
                    partial.append(method)
            elif veto is None and await self._depends_on_content(exchange):
                conditional.append(method)
        return {"path": path, "allowed": allowed, "conditional": conditional, "partial": partial}

    async def _depends_on_content(self, exchange: Exchange) -> bool:
        """Return whether a rule lacks nothing but a suitable body or suitable parameters."""
        index = await self._book.find_rules(roles_of(exchange.account))
        view = self._book.view(exchange)
        flag = find_flag(view)
        for _, rule in index.select(view.request.method, view.segments):
            if flag is not None and flag not in rule.conditions.flags:
                continue
            failed = await self._book.find_failures(rule, view)
            if failed and all(_ON_CONTENT.match(one.condition) for one in failed):
                return True
        return False
