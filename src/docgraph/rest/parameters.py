"""Query parameters: parse them into typed values, and reject each invalid one with a message."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from docgraph.codec import JsonMode, decode
from docgraph.codec.csv_table import parse_formulas
from docgraph.exchange import Consistency, DataParameters, Document, WriteConcern, WriteMode
from docgraph.exchange.errors import BodyError, NotSupported, RequestError
from docgraph.exchange.request import QueryParameters
from docgraph.rest.ids import IdType, parse_id_type
from docgraph.rest.sections import DEFAULT_PAGESIZE, Mongo
from docgraph.store.driver.concerns import MAJORITY, READ_CONCERNS, READ_PREFERENCES
from docgraph.variables import mark_caller

FROM_PRIMARY: Final = Consistency(preference="primary")

# The names are those of MongoDB's drivers.
_WRITE_CONCERNS: Final = {
    MAJORITY: WriteConcern(MAJORITY),
    "acknowledged": WriteConcern(),
    "journaled": WriteConcern(journal=True),
    "w1": WriteConcern(1),
    "w2": WriteConcern(2),
    "w3": WriteConcern(3),
}
WRITE_CONCERNS: Final = tuple(_WRITE_CONCERNS)
_UNACKNOWLEDGED: Final = frozenset({"unacknowledged", "w0"})
_NUMBER: Final = re.compile(r"[0-9]{1,3}")
_MAX_SERVERS: Final = 50  # the maximum of a replica set


def _parse_write_concern(text: str) -> WriteConcern:
    """Return a number of servers, or one of the names."""
    name = text.strip().lower()
    servers = int(name) if _NUMBER.fullmatch(name) else None
    if servers == 0 or name in _UNACKNOWLEDGED:
        raise RequestError(
            "illegal writeConcern parameter, unacknowledged writes are not supported",
            hint=f"valid values are {', '.join(WRITE_CONCERNS)}, and 1 to {_MAX_SERVERS}",
        )
    if servers is not None and servers <= _MAX_SERVERS:
        return WriteConcern(servers)
    concern = _WRITE_CONCERNS.get(name)
    if concern is None:
        raise _unknown("writeConcern", (*WRITE_CONCERNS, f"a number from 1 to {_MAX_SERVERS}"))
    return concern


def _choose(parameter: str, text: str, names: Iterable[str]) -> str:
    """Return the named mode or level, in the letter case that the database expects."""
    given = text.strip().lower()
    for name in names:
        if name.lower() == given:
            return name
    raise _unknown(parameter, names)


def _unknown(parameter: str, names: Iterable[str]) -> RequestError:
    return RequestError(f"illegal {parameter} parameter; must be [{', '.join(names)}]")


_MAX_SKIPPED = (1 << 63) - 1
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_MODES = {
    mode.value: mode
    for mode in (JsonMode.STRICT, JsonMode.EXTENDED, JsonMode.RELAXED, JsonMode.SHELL)
}
_UNSUPPORTED_REPRESENTATIONS = frozenset({"HAL", "SHAL", "PLAIN_JSON", "PJ"})


class Count(StrEnum):
    """How the total is counted."""

    EXACT = "exact"
    ESTIMATED = "estimated"


@dataclass(frozen=True, slots=True)
class Parameters(DataParameters):
    """The parameters of the query string, with defaults for missing ones.

    `after` is None without keyset pagination and empty for its first page.
    """

    page: int = 1
    pagesize: int = DEFAULT_PAGESIZE
    count: Count | None = None
    after: str | None = None
    json_mode: JsonMode = JsonMode.STANDARD
    id_type: IdType = IdType.STRING_OID
    check_etag: bool = False
    no_cache: bool = False
    read_preference: str | None = None
    read_concern: str | None = None
    write_concern: WriteConcern | None = None
    avars: Document = field(default_factory=dict)
    format: str | None = None  # of a table; None: as `Accept` says
    raw_formulas: bool = False  # in CSV
    bytes: bool = False  # the size of the collection, too

    @property
    def restriction(self) -> list[Mapping[str, Any]]:
        """The conditions of `shardkey` and `filter`, if they are given."""
        return [
            restriction for restriction in (self.shardkey, self.filter) if restriction is not None
        ]

    @property
    def skip(self) -> int:
        return (self.page - 1) * self.pagesize

    @property
    def consistency(self) -> Consistency | None:
        """The requested read consistency; None if the request does not set it."""
        if self.read_preference is None and self.read_concern is None:
            return None
        return Consistency(self.read_preference, self.read_concern)


def parse_parameters(query: QueryParameters, settings: Mongo, defaults: Parameters) -> Parameters:
    """Return the parameters of a request; unknown names belong to other parts."""
    given: dict[str, Any] = {}
    names = query.names()
    for name in names:
        reader = _READERS.get(name)
        if reader is not None:
            given.update(reader(query.get_list(name), settings))
        elif name.lower() == "checketag":
            given["check_etag"] = True
    if "sort_by" in names:  # wins if both are given
        given.update(_read_sort(query.get_list("sort_by"), settings))
    if "wm" in names:
        given["mode"] = _parse_mode(query.get_list("wm")[0])
    if "after" in names and "page" in names:
        raise RequestError("page cannot be used together with after", hint="leave one of them out")
    parameters = replace(defaults, **given) if given else defaults
    if parameters.skip > _MAX_SKIPPED:
        raise RequestError("illegal page parameter, it is too large")
    return parameters


def _read_page(values: list[str], settings: Mongo) -> dict[str, Any]:
    page = _read_whole("page", values[0])
    if page < 1:
        raise RequestError("illegal page parameter, it is < 1")
    return {"page": page}


def _read_pagesize(values: list[str], settings: Mongo) -> dict[str, Any]:
    size = _read_whole("pagesize", values[0])
    if not 0 <= size <= settings.max_pagesize:
        raise RequestError(
            f"illegal pagesize parameter, pagesize must be >= 0 and <= {settings.max_pagesize}"
        )
    return {"pagesize": size}


def _read_whole(name: str, text: str) -> int:
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        raise RequestError(f"illegal {name} parameter, it is not a number")
    return int(text)


def _read_filter(values: list[str], settings: Mongo) -> dict[str, Any]:
    filters = [_parse_filter(text) for text in values]
    return {"filter": filters[0] if len(filters) == 1 else {"$and": filters}}


def _parse_filter(text: str) -> dict[str, Any]:
    if not text.strip():
        raise RequestError("illegal filter parameter (empty)")
    try:
        filter = decode(text)
    except BodyError as error:
        raise RequestError(f"illegal filter parameter: {_cut(text)}, {error.message}") from None
    if not isinstance(filter, dict):
        raise RequestError(
            f"illegal filter parameter, it is not a json object: {_cut(text)} => "
            f"{_name_type(filter)}"
        )
    if not filter:
        raise RequestError("illegal filter parameter (empty json object)")
    return filter


def _read_shardkey(values: list[str], settings: Mongo) -> dict[str, Any]:
    text = values[0]
    if not text.strip():
        raise RequestError("illegal shardkey parameter (empty)")
    key = _decode_object(text, f"illegal shardkey parameter: {_cut(text)}")
    if not isinstance(key, dict):
        raise RequestError(f"illegal shardkey parameter: {_cut(text)}")
    if not key:
        raise RequestError("illegal shardkey parameter (empty json object)")
    return {"shardkey": key}


def _read_sort(values: list[str], settings: Mongo) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for value in values:
        merged.update(_read_order(value.strip()))
    return {"sort": tuple(merged.items())}


def _read_order(text: str) -> dict[str, Any]:
    if not text:
        raise RequestError("Illegal sort parameter", hint="name a property, or send a JSON object")
    if text[0] != "{" and not _is_array(text):
        return _read_signed(text, "Illegal sort parameter")
    order = _decode_object(text, "Invalid sort parameter")
    if not isinstance(order, dict):
        raise RequestError("Invalid sort parameter")
    for value in order.values():
        if not isinstance(value, dict) and (isinstance(value, bool) or value not in (1, -1)):
            raise RequestError(
                "Wrong sort parameter, key ordering must be 1 (for ascending) or -1 "
                "(for descending)"
            )
    return {path: value if isinstance(value, dict) else int(value) for path, value in order.items()}


def _is_array(text: str) -> bool:
    """Check if the text is a JSON array, and not a name that begins like one."""
    try:
        return text[0] == "[" and isinstance(decode(text), list)
    except BodyError:
        return False


def _read_signed(text: str, complaint: str) -> dict[str, Any]:
    """Parse `name`, `+name` or `-name`; a plus may have been decoded to a space and stripped."""
    path = text[1:].strip() if text[0] in "+-" else text
    if not path:
        raise RequestError(complaint)
    return {path: -1 if text[0] == "-" else 1}


def _read_keys(values: list[str], settings: Mongo) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for text in values:
        if not text.strip():
            raise RequestError("illegal keys parameter (empty)")
        keys = _decode_object(text, f"illegal keys parameter: {_cut(text)}")
        if not isinstance(keys, dict):
            raise RequestError(
                f"illegal keys parameter, it is not a json object: {_cut(text)} => "
                f"{_name_type(keys)}"
            )
        merged.update(keys)
    return {"keys": merged}


def _read_hint(values: list[str], settings: Mongo) -> dict[str, Any]:
    value = values[-1]  # the last one applies
    text = value.strip()
    if not text:
        raise RequestError("illegal hint parameter")
    if text[0] == "{" or _is_array(text):
        hint = _decode_object(text, "illegal hint parameter")
        if not isinstance(hint, dict) or not hint:
            raise RequestError("illegal hint parameter")
        return {"hint": hint}
    if text[0] in "+-" or value[0] == " ":  # a plus that was decoded to a space
        return {"hint": _read_signed(text, "illegal hint parameter")}
    return {"hint": text}


def parse_avars(values: list[str], settings: Mongo) -> Document:
    """Return the variables of an aggregation or stream: the object in the first `avars` parameter.

    A value stays a value: nothing in it can become an operator or a field, unless
    `aggregation-check-operators` is off, and even then nothing that runs code.
    """
    complaint = f"illegal avars parameter: {_cut(values[0])}"
    try:
        avars = decode(values[0])
    except BodyError as error:
        raise RequestError(complaint, hint=error.message) from None
    if not isinstance(avars, dict):
        raise RequestError(
            f"illegal avars parameter, it is not a json object: {_cut(values[0])}",
            hint='such as avars={"name": "value"}',
        )
    if not settings.aggregation_check_operators:
        return {key: mark_caller(value) for key, value in avars.items()}
    if _has_operator(avars):
        raise RequestError(complaint, hint="no name in it may start with $")
    return avars


def _has_operator(value: Any) -> bool:
    if isinstance(value, dict):
        return any(key[:1] == "$" or _has_operator(inner) for key, inner in value.items())
    return isinstance(value, list) and any(map(_has_operator, value))


def _read_count(values: list[str], settings: Mongo) -> dict[str, Any]:
    estimated = values[0].strip().lower() == Count.ESTIMATED
    return {"count": Count.ESTIMATED if estimated else Count.EXACT}


def _reject_session(values: list[str], settings: Mongo) -> dict[str, Any]:
    # If they were ignored, a caller would rely on a transaction that does not exist.
    raise NotSupported(
        "sessions and transactions are not supported",
        hint="POST /_batch executes several requests in one transaction",
    )


def _read_representation(values: list[str], settings: Mongo) -> dict[str, Any]:
    name = values[0].strip().upper()
    if name in _UNSUPPORTED_REPRESENTATIONS:
        raise NotSupported(
            f"the representation {name} is not supported",
            hint="leave out rep: documents come as they are stored",
        )
    return {}


_READERS: dict[str, Callable[[list[str], Mongo], dict[str, Any]]] = {
    "page": _read_page,
    "pagesize": _read_pagesize,
    "filter": _read_filter,
    "shardkey": _read_shardkey,
    "sort": _read_sort,
    "keys": _read_keys,
    "hint": _read_hint,
    "count": _read_count,
    "avars": lambda values, settings: {"avars": parse_avars(values, settings)},
    "after": lambda values, _: {"after": values[0]},
    "jsonMode": lambda values, _: {"json_mode": _MODES.get(values[0].lower(), JsonMode.STANDARD)},
    "id_type": lambda values, _: {"id_type": parse_id_type(values[0])},
    "writeMode": lambda values, _: {"mode": _parse_mode(values[0])},
    "readPreference": lambda values, _: {
        "read_preference": _choose("readPreference", values[0], READ_PREFERENCES)
    },
    "readConcern": lambda values, _: {
        "read_concern": _choose("readConcern", values[0], READ_CONCERNS)
    },
    "writeConcern": lambda values, _: {"write_concern": _parse_write_concern(values[0])},
    "nocache": lambda values, _: {"no_cache": True},
    "rep": _read_representation,
    "format": lambda values, _: {"format": values[0].strip().lower()},
    "bytes": lambda values, _: {"bytes": values[0].strip().lower() == "true"},
    "csv-formulas": lambda values, _: {"raw_formulas": parse_formulas(values[0])},
    "sid": _reject_session,
    "txn": _reject_session,
}


def _decode_object(text: str, complaint: str) -> Any:
    """Decode a text that should be an object; the error names the position of invalid JSON."""
    try:
        return decode(text)
    except BodyError as error:
        hint = f'write a JSON object such as {{"title": 1}}: {error.message}'
        raise RequestError(complaint, hint=hint) from None


_LONGEST = 200


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _name_type(value: Any) -> str:
    match value:
        case None:
            return "Null"
        case bool():
            return "Boolean"
        case int() | float():
            return "Number"
        case str():
            return "String"
        case list():
            return "Array"
    return type(value).__name__


def _parse_mode(text: str) -> WriteMode | None:
    """Return the named mode, in any letter case; None, which means the default, for others."""
    try:
        return WriteMode(text.lower())
    except ValueError:
        return None
