"""Predefined variables (decision 19), those that plugins add, and the scope of a template.

All values are resolved before anything is rendered. A caller supplies none of them: they come from
the account, the request as the server saw it, and the permission that admitted it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from docgraph.exchange import Account, DataRequest, Document, Exchange
from docgraph.exchange.data import TrustedDocument
from docgraph.exchange.errors import BodyError, DocgraphError, RequestError, StartupError
from docgraph.observe import emit
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import VariableResolver
from docgraph.variables.paths import (
    REQUEST_TIMES,
    ValueOrigin,
    VariableName,
    get_bound,
    get_value,
    is_momentary,
    parse_expression,
    parse_path,
    parse_random_bits,
)
from docgraph.variables.value_marks import UNBOUND, mark_caller

Decoder = Callable[[str], Any]

BUILT_IN = (
    *("user", "roles", "authenticated", "request", "filter", "qparams", "now", "rnd"),
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
    """The built-in variables and those of plugins; `decode` is for the `filter` parameter."""

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
        """Return the value of each `@…` expression, or UNBOUND; `failed` gets plugin errors.

        `failed` is a set for rules only, which are bounded by those of the owner of an API key.
        """
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
        if failed is None and exchange.account is not None and exchange.account.owner is not None:
            _check_inherited(values, exchange.account.owner)
        return values


def _check_inherited(values: Mapping[str, Any], owner: Account) -> None:
    """Reject an API key that lacks a property of its owner.

    An app can show more to those without it: a default applies, and `$ifarg` drops a condition.
    """
    lacking = [name for name, value in values.items() if value is UNBOUND]
    for name in lacking:
        head, rest = parse_expression(name)
        path = parse_path(f"{head}{rest}")[1:] if head == "user" else ()
        if path and get_value(owner.properties, path) is not UNBOUND:
            hint = f"make a key that inherits {path[0]!r}"
            raise RequestError(f"this API key does not inherit {name} of its owner", hint=hint)


async def _resolve(
    plugin: VariableResolver, exchange: Exchange, expression: str, failed: set[str] | None
) -> Any:
    try:
        value = await plugin.resolve_variable(exchange, expression)
    except (DocgraphError, MemoryError):
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
            value = self._exchange.request.query.get(path[0]) if len(path) == 1 else None
            return UNBOUND if value is None else value
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


class _Moment:
    """A mark for `@now` and the like in a filter that is used long after its request.

    A change stream renders its filters once. A value of the moment in them has a mark, and gets its
    value each time the filter is used (`at`). Two filters that differ in the time alone are
    therefore equal.
    """

    __slots__ = ()

    def at(self, now: datetime) -> Any:
        raise NotImplementedError


class _Time(_Moment, datetime):
    def at(self, now: datetime) -> Any:
        return now


class _Seconds(_Moment, int):
    def at(self, now: datetime) -> Any:
        return int(now.replace(tzinfo=UTC).timestamp())


class _Text(_Moment, str):
    __slots__ = ()

    def at(self, now: datetime) -> Any:
        return now.replace(tzinfo=UTC).isoformat(timespec="milliseconds")


class _Random(_Moment, str):
    __slots__ = ()

    def at(self, now: datetime) -> Any:
        return Fresh(int(self))()


NOW: Final = _Time(1970, 1, 1)


def mark_moments(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of variables with marks in place of those of the moment."""
    return {name: _mark(value) if is_momentary(name) else value for name, value in values.items()}


def _mark(value: Any) -> Any:
    match value:
        case Fresh():
            return _Random(value.bits)
        case datetime():
            return NOW
        case int():
            return _Seconds(0)
        case str():
            return _Text("")
        case Mapping():
            times = {name: _mark(value[name]) for name in REQUEST_TIMES if name in value}
            return {**value, **times}
    return value


def has_moments(value: Any) -> bool:
    """Check if a rendered filter or pipeline contains a mark."""
    if isinstance(value, Mapping):
        return any(map(has_moments, value.values()))
    if isinstance(value, list | tuple):
        return any(map(has_moments, value))
    return isinstance(value, _Moment)


def fill_moments(value: Any) -> Any:
    """Return the filter or pipeline with the current values in place of the marks."""
    now = datetime.now(UTC).replace(tzinfo=None)
    return _fill(value, now.replace(microsecond=now.microsecond // 1000 * 1000))


def _fill(value: Any, now: datetime) -> Any:
    if isinstance(value, Mapping):
        return {key: _fill(inner, now) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(inner, now) for inner in value]
    return value.at(now) if isinstance(value, _Moment) else value


class Variables:
    """The predefined variables of one request, resolved before anything is rendered."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    @classmethod
    async def resolve(
        cls, names: Iterable[str], exchange: Exchange, resolvers: Resolvers
    ) -> Variables:
        """Resolve the `@…` names among `names`; one without value is recorded as unbound."""
        wanted = sorted({name for name in names if name.startswith("@")})
        return cls(await resolvers.resolve_all(wanted, exchange))

    def mark_moments(self) -> Variables:
        """Return the variables with marks in place of the values of the moment."""
        return Variables(mark_moments(self._values))

    def lookup(self, name: str) -> Any:
        """Return the value of the expression, or UNBOUND; `@rnd(n)` differs at every call."""
        value = self._values.get(name, UNBOUND)
        return value() if isinstance(value, Fresh) else value


@dataclass(frozen=True, slots=True)
class Scope:
    """The values of one fetch; `root` and `parent` if the field has a parent document."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    variables: Variables = field(default_factory=Variables)
    root: Document | None = None
    parent: Document | None = None

    def lookup(self, reference: VariableName) -> Any:
        """Return the value of a name, or UNBOUND."""
        match reference.source:
            case ValueOrigin.ARGUMENT:
                value = self.arguments.get(reference.head, UNBOUND)
            case ValueOrigin.ROOT:
                value = UNBOUND if self.root is None else self.root
            case ValueOrigin.VARIABLE:
                return self.variables.lookup(reference.name)
        return get_bound(value, reference.path) if reference.path else value

    def is_bound(self, reference: VariableName) -> bool:
        """Check if the name has a value; an explicit null is one."""
        return self.lookup(reference) is not UNBOUND
