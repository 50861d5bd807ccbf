"""`/keys`: a caller lists, makes, rotates and revokes API keys (decision 72)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import orjson

from docgraph.auth.api_keys import PAGE, ApiKeys, KeyOrder
from docgraph.auth.mechanisms.api_key import NAME, ApiKeyMechanism
from docgraph.auth.tokens.token import TokenAccount
from docgraph.codec.request_body import read_documents
from docgraph.config.section import ServiceConfig
from docgraph.exchange import Account, Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden, Unauthenticated
from docgraph.plugins.kinds import Service
from docgraph.plugins.registry import PluginRegistry, bound_path


class ApiKeyService(Service):
    """`/keys`: callers manage their own keys under the rules, administrators those of everyone.

    Only administrators give properties, and keys to other owners.
    """

    name: ClassVar[str] = "apiKeys"
    description: ClassVar[str] = "lists, makes and revokes API keys"
    part_of: ClassVar[str] = NAME
    uri: ClassVar[str] = "/keys"
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "DELETE")
    security: ClassVar[bool] = True
    Config = ServiceConfig

    def __init__(self, config: ServiceConfig, registry: PluginRegistry) -> None:
        self.config = config
        self._prefix = bound_path(self, config)
        self._registry = registry

    async def handle(self, exchange: Exchange) -> Answer:
        """List, make, show, rotate or revoke."""
        account, mechanism = exchange.account, self._registry.find(NAME)
        if account is None or not isinstance(mechanism, ApiKeyMechanism):
            raise Unauthenticated("authentication required")
        keys, method, query = mechanism.keys, exchange.request.method, exchange.request.query
        name = "/".join(exchange.request.segments[len(self._prefix) :])
        if not name and method == "POST":
            return await _make(keys, exchange, account)
        owner = None if keys.root_role in account.roles else account
        if not name and method != "DELETE":
            page = await keys.list_page(owner, query.get("after") or "")
            following = {"next": page[-1]["_id"]} if len(page) == PAGE else {}
            return _render(200, {"keys": await keys.describe(*page), **following})
        if method == "DELETE":
            await keys.revoke(name, owner)
            return Body(204)
        if method == "POST":
            return _render(200, {"key": await keys.rotate(name, 24 * ("now" not in query), owner)})
        return _render(200, *await keys.describe(await keys.require(name, owner)))


async def _make(keys: ApiKeys, exchange: Exchange, maker: Account) -> Body:
    """Make a key of the caller; administrators name its owner."""
    order = KeyOrder.parse(await read_documents(exchange.request))
    name, kind = (order.owner, None) if order.owner else (maker.name, maker.kind)
    owner = await keys.find_owner(name, kind)
    # The login is examined after the owner was read: an old password, or a body that takes longer
    # than a login lasts, makes no key that outlives them.
    maker = await _identify_again(exchange)
    if keys.root_role not in maker.roles:
        if order.properties or order.owner:
            raise Forbidden("only administrators give properties, and keys to others")
        if owner:  # a login may have fewer roles than its user
            roles = tuple(set(owner.account.roles).intersection(maker.roles))
            owner = owner._replace(account=replace(owner.account, roles=roles))
    made_at = maker.token_made_at if isinstance(maker, TokenAccount) and not order.owner else None
    key, text = await keys.make(order, owner, made_at)
    (shown,) = await keys.describe(key)
    return _render(201, {**shown, "key": text})


async def _identify_again(exchange: Exchange) -> Account:
    admission = exchange.admission
    account = None if admission is None else (await admission.readmit(exchange)).account
    if account is None:
        raise Unauthenticated("authentication required")
    return account


def _render(status: int, content: dict[str, Any]) -> Body:
    headers = [("Cache-Control", "no-store")]
    return Body(status, orjson.dumps(content), "application/json", headers)
