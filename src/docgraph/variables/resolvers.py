"""Predefined variables (decision 19) and those that plugins add.

All values are resolved before anything is rendered. A caller supplies none of them: they come from
the account, the request as the server saw it, and the permission that admitted it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from docgraph.exchange import DataRequest, Exchange
from docgraph.exchange.errors import BodyError, DocgraphError, RequestError, StartupError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import VariableResolver
from docgraph.variables.paths import get_value, parse_path
from docgraph.variables.value_marks import UNBOUND, TrustedDocument, mark_caller
from docgraph.variables.variable_names import parse_expression, parse_random_bits

Decoder = Callable[[str], Any]

BUILT_IN = (
    "user",
    "roles",
    "authenticated",
    "request",
    "filter",
    "qparams",
    "now",
    "rnd",
    "dbPermissions",
)
_OF_CALLER = frozenset({"user", "roles", "authenticated", "dbPermissions"})


@dataclass(frozen=True, slots=True)
class Fresh:
    """The value of `@rnd(bits)`: another one at every occurrence."""

    bits: int

    def __call__(self) -> str:
        size = (self.bits + 7) // 8
        number = secrets.randbits(self.bits)
        return number.to_bytes(size, "big").hex()


class Resolvers:
    """The variables that an instance knows: the built-in ones and those of plugins.

    `decode` decodes the extended JSON of the `filter` parameter.
    """

    def __init__(self, decode: Decoder, plugins: Iterable[VariableResolver] = ()) -> None:
        self._decode = decode
        self._plugins: dict[str, VariableResolver] = {}
        for plugin in plugins:
            if plugin.variable in BUILT_IN or plugin.variable in self._plugins:
                raise StartupError(
                    f"plugin {plugin.name}: the variable @{plugin.variable} exists already",
                    hint="give the plugin's variable another name",
                )
            self._plugins[plugin.variable] = plugin

    @property
    def variables(self) -> frozenset[str]:
        """The known names, without their @."""
        return frozenset((*BUILT_IN, *self._plugins))

    def is_stable(self, name: str) -> bool:
        """Return whether the value of an `@…` expression depends on the caller alone."""
        head, _ = parse_expression(name)
        plugin = self._plugins.get(head)
        return head in _OF_CALLER if plugin is None else getattr(plugin, "is_stable", False)

    async def resolve_all(
        self, names: Sequence[str], exchange: Exchange, failed: set[str] | None = None
    ) -> dict[str, Any]:
        """Return the value of each `@…` expression, or UNBOUND; `failed` gets plugin errors."""
        request = _RequestVariables(exchange, self._decode)
        values: dict[str, Any] = {}
        for name in names:
            head, rest = parse_expression(name)
            plugin = self._plugins.get(head)
            if plugin is not None:
                values[name] = await _resolve(plugin, exchange, name, failed)
            elif head == "rnd":
                values[name] = Fresh(parse_random_bits(rest))
            else:
                values[name] = await request.resolve(head, rest)
        return values


async def _resolve(
    plugin: VariableResolver, exchange: Exchange, expression: str, failed: set[str] | None
) -> Any:
    try:
        value = await plugin.resolve_variable(exchange, expression)
    except DocgraphError:
        raise
    except Exception as error:  # a third-party plugin: its failure leaves the variable unbound
        emit(PluginFailed(plugin=plugin.name, stage="use", error=error))
        if failed is not None:
            failed.add(expression)
        return UNBOUND
    return UNBOUND if value is None else value


class _RequestVariables:
    """The built-in variables of one request; each is computed at its first use."""

    def __init__(self, exchange: Exchange, decode: Decoder) -> None:
        self._exchange = exchange
        self._decode = decode
        moment = datetime.now(UTC).replace(tzinfo=None)
        self._now = moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    async def resolve(self, head: str, rest: str) -> Any:
        if head not in BUILT_IN:
            return UNBOUND
        path = parse_path(f"{head}{rest}")[1:]
        if head == "request" and path[:1] == ("body",):
            return get_value(await self._body(), path[1:])
        if head == "qparams":
            return self._parameter(path)
        if head == "request" and not path:
            return {**self._request(), "body": await self._body()}
        return get_value(self._base(head), path)

    def _base(self, head: str) -> Any:
        exchange = self._exchange
        match head:
            case "user":
                return UNBOUND if exchange.account is None else dict(exchange.account.properties)
            case "roles":
                return list(exchange.roles)
            case "authenticated":
                return exchange.account is not None
            case "now":
                return self._now
            case "filter":
                return self._filter()
            case "dbPermissions":
                return self._permissions()
            case _:
                return self._request()

    def _parameter(self, path: tuple[str, ...]) -> Any:
        if len(path) != 1:
            return UNBOUND
        value = self._exchange.request.query.get(path[0])
        return UNBOUND if value is None else value

    def _filter(self) -> Any:
        parsed = self._exchange.parsed
        if isinstance(parsed, DataRequest):
            filter = parsed.parameters.filter
            return UNBOUND if filter is None else mark_caller(filter)
        texts = self._exchange.request.query.get_list("filter")
        if not texts:
            return UNBOUND
        filters = [self._decode_filter(text) for text in texts]
        return mark_caller(filters[0] if len(filters) == 1 else {"$and": filters})

    def _decode_filter(self, text: str) -> dict[str, Any]:
        try:
            value = self._decode(text)
        except BodyError as error:
            raise RequestError(f"the parameter filter is not valid JSON: {error.message}") from None
        if not isinstance(value, dict):
            raise RequestError("the parameter filter must be a JSON object")
        return value

    def _permissions(self) -> Any:
        permission = self._exchange.permission
        if permission is None:
            return UNBOUND
        values = dict(permission.properties)
        values.pop("readFilter", None)
        if permission.read_filter is not None:
            values["readFilter"] = TrustedDocument(permission.read_filter)
        return values

    async def _body(self) -> Any:
        content = await self._exchange.request.get_content()
        return mark_caller(content) if isinstance(content, dict | list) else content

    def _request(self) -> Mapping[str, Any]:
        request = self._exchange.request
        connection = request.connection
        values: dict[str, Any] = {
            "method": request.method,
            "relativePath": request.path,
            "queryString": request.query_string.decode("latin-1"),
            "protocol": f"HTTP/{connection.http_version}",
            "epochTimeStamp": int(self._now.replace(tzinfo=UTC).timestamp()),
            "dateTime": self._now.replace(tzinfo=UTC).isoformat(timespec="milliseconds"),
        }
        if self._exchange.account is not None:
            values["userName"] = self._exchange.account.name
        if connection.client is not None:
            values["remoteIp"] = connection.client[0]
        if connection.server is not None:
            values["localIp"], values["localPort"] = connection.server
        host = request.headers.get("host")
        if host:
            values["localServerName"] = host.rsplit(":", 1)[0]
        return values
