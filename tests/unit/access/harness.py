"""Requests and rules without a server."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

from docgraph.access.language import RequestView, compile_predicate, holds
from docgraph.access.parse_rule import Knowledge
from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange import Account, Connection, Exchange, Headers, Request
from docgraph.rest.sections import Mongo
from docgraph.rest.service import RequestParser
from docgraph.variables import Resolvers

RESOLVERS = Resolvers(decode)
KNOWLEDGE = Knowledge(RESOLVERS.variables)
PARSER = RequestParser(Mongo())
ADA = Account("ada", ("user", "editor"), {"_id": "ada", "team": "blue", "age": 36, "gone": None})


def make_exchange(
    method: str = "GET",
    path: str = "/",
    *,
    account: Account | None = ADA,
    body: Any = None,
    service: str = "mongo",
    headers: dict[str, str] | None = None,
    on_body: Callable[[], None] = lambda: None,
) -> Exchange:
    """A request as the pipeline hands it to authorizers; `path` may have a query string."""
    raw, _, query = path.partition("?")

    async def read(limit: int) -> bytes:
        on_body()
        data = b"" if body is None else encode(body, JsonMode.STRICT)
        return gzip.compress(data) if "Content-Encoding" in (headers or {}) else data

    fields = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    request = Request(
        method,
        raw.encode(),
        query_string=query.encode(),
        headers=Headers(fields),
        body=read,
        connection=Connection(client=("10.0.0.7", 5000), scheme="https"),
    )
    request.body_limit = 1 << 20
    request.parser = lambda data, kind: decode(data) if data else None
    request.account = account
    exchange = Exchange(request, "1", account=account)
    exchange.service = service
    exchange.parsed = PARSER.parse(request) if service == "mongo" else None
    return exchange


async def evaluate(text: str, *how: Any, **request: Any) -> bool:
    """Whether the predicate holds for a request."""
    exchange = make_exchange(*how, **request)
    predicate = compile_predicate(text, RESOLVERS.variables)
    return await holds(predicate, RequestView(exchange, RESOLVERS))
