"""`/keys`: callers list, make and revoke their own API keys, administrators those of everyone.

GET    /keys?after=<id>   a page of keys        POST    /keys        a new key, with its text
GET    /keys/<id>         one of them           POST    /keys/<id>   another secret
DELETE /keys/<id>         revokes it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import msgspec

from docgraph.auth.keys.api_keys import PAGE, KeyOrder, Rotation
from docgraph.auth.mechanisms.api_key import NAME, ApiKeyMechanism
from docgraph.codec import JsonMode, encode
from docgraph.codec.request_body import read_documents
from docgraph.config.section import ServiceConfig
from docgraph.exchange import Account, Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden, RequestError, Unauthenticated
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry, bound_path

T = TypeVar("T")


class ApiKeyService(Service):
    """Serves the keys under the rules; only the answer that makes a secret has it.

    A key manages no keys. Only administrators give properties, and keys to other owners.
    """

    name: ClassVar[str] = "apiKeys"
    description: ClassVar[str] = "lists, makes and revokes API keys"
    part_of: ClassVar[str] = NAME
    uri: ClassVar[str] = "/keys"
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "DELETE")
    security: ClassVar[bool] = True
    Config = ServiceConfig

    def __init__(
        self, config: ServiceConfig, registry: PluginRegistry, root_role: str | None
    ) -> None:
        self.config = config
        self._prefix = bound_path(self, config)
        self._registry = registry
        self._root_role = root_role

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods of the list, or of a key."""
        return self.methods if self._find_name(exchange) else self.methods[:2]

    async def handle(self, exchange: Exchange) -> Answer:
        """List, make, show, rotate or revoke."""
        account, method = exchange.account, exchange.request.method
        if account is None:
            raise Unauthenticated("authentication required")
        if account.owner:
            raise Forbidden("a key manages no keys")
        mechanism: ApiKeyMechanism = self._registry.find(NAME)  # type: ignore[assignment]
        keys, name = mechanism.keys, self._find_name(exchange)
        owner = None if self._root_role in account.roles else account
        if not name and method == "POST":
            return await _make(mechanism, exchange, account, owner)
        if not name:
            page = await keys.list_page(owner, exchange.request.query.get("after") or "")
            following = {"next": page[-1]["_id"]} if len(page) == PAGE else {}
            return _render(200, {"keys": list(map(keys.describe, page)), **following})
        key = await keys.require(name, owner)
        if method == "DELETE":
            await keys.revoke(key)
            return Body(204)
        if method == "POST":
            rotation = await _read(exchange, Rotation)
            key["key"] = await keys.rotate(key, rotation.hours)
        return _render(200, keys.describe(key))

    def _find_name(self, exchange: Exchange) -> str:
        return "/".join(exchange.request.segments[len(self._prefix) :])


async def _make(
    mechanism: ApiKeyMechanism, exchange: Exchange, maker: Account, owner: Account | None
) -> Body:
    """Make a key of `owner`; None: the maker is an administrator, and names anyone."""
    order = await _read(exchange, KeyOrder)
    if owner and (order.properties or order.owner not in ("", maker.name)):
        raise Forbidden("only administrators give properties, and keys to others")
    is_other = order.owner not in ("", maker.name)
    name, kind = (order.owner, None) if is_other else (maker.name, maker.kind)
    user = await mechanism.find_owner(name, kind)
    if user is None:
        raise RequestError(f"{name!r} is no user of a realm here", hint="only users own keys")
    if owner:  # a login may have fewer roles than its user
        user = replace(user, roles=tuple(set(user.roles).intersection(maker.roles)))
    key, text = await mechanism.keys.make(order, user)
    return _render(201, {**mechanism.keys.describe(key), "key": text})


async def _read(exchange: Exchange, form: type[T]) -> T:
    try:
        return msgspec.convert(await read_documents(exchange.request), form)
    except msgspec.ValidationError as error:
        raise RequestError(f"the body is not as expected: {error}") from None


def _render(status: int, content: dict[str, Any]) -> Body:
    body = encode(content, JsonMode.STANDARD)
    return Body(status, body, "application/json", [("Cache-Control", "no-store")])
