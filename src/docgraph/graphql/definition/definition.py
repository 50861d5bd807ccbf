"""App definition: the decoded document with its keys unescaped.

Decoding never fails. A wrong shape is recorded as a problem, so that every mistake of a definition
is reported together. `check` decides whether the definition can work.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from graphql import (
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
    validate,
)

from docgraph.codec.encode import EncodeError, encode
from docgraph.codec.escape import as_meant
from docgraph.codec.forms import JsonMode
from docgraph.config.nearest import find_nearest
from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.query_limits import check_limits, parse_query
from docgraph.graphql.definition.scalars import JSON_MODES
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.sections import GraphqlLimits
from docgraph.variables.compilation import describe

MAX_OPERATIONS: Final = 200
_PLACE: Final = "descriptor.operations"
_OPERATION_KEYS: Final = ("name", "description", "query")
# Short enough for the name of a tool, which includes the name of the app.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class DeclaredOperation:
    """A query of `descriptor.operations`: persisted, and a tool of agents with its variables."""

    name: str
    description: str
    query: str

    def find_digests(self) -> set[str]:
        """Return the SHA-256 of the text as it is, and with and without a final line break.

        Relay's texts end with a line break, Apollo's do not; YAML files easily add or lose one.
        """
        bare = self.query.strip()
        return {digest_text(text) for text in (self.query, bare, f"{bare}\n")}


def digest_text(text: str) -> str:
    """Return the SHA-256 of a query, which clients send to identify it."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def read_operations(value: Any, problems: list[Finding]) -> tuple[DeclaredOperation, ...]:
    """Return the operations that have a valid shape; add the mistakes to the problems."""
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.append(Finding(_PLACE, f"must be a list, not {describe(value)}"))
        return ()
    if len(value) > MAX_OPERATIONS:
        problems.append(Finding(_PLACE, f"has more than {MAX_OPERATIONS} operations"))
        return ()
    found: dict[str, DeclaredOperation] = {}
    for number, one in enumerate(value):
        where = f"{_PLACE}.{number}"
        flaws = list(_find_flaws(one, where, found))
        problems += flaws
        if not flaws:
            name = one["name"]
            found[name] = DeclaredOperation(name, one.get("description") or "", one["query"])
    return tuple(found.values())


def _find_flaws(one: Any, where: str, others: Mapping[str, Any]) -> Iterator[Finding]:
    if not isinstance(one, dict):
        yield Finding(where, f"must be an object, not {describe(one)}")
        return
    for key in one.keys() - set(_OPERATION_KEYS):
        yield Finding(
            f"{where}.{key}", "is not known", f"an operation has {', '.join(_OPERATION_KEYS)}"
        )
    name, description, query = (one.get(key) for key in _OPERATION_KEYS)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield Finding(
            f"{where}.name",
            "must be a name: a letter, then letters, digits and underscores, 40 at most",
        )
    elif name in others:
        yield Finding(f"{where}.name", f"the operation {name!r} is there twice")
    if not (description is None or isinstance(description, str)):
        yield Finding(f"{where}.description", f"must be a string, not {describe(description)}")
    if not isinstance(query, str):
        yield Finding(f"{where}.query", "must be the text of a query")


def check_operations(
    operations: Sequence[DeclaredOperation], schema: GraphQLSchema, limits: GraphqlLimits
) -> Iterator[Finding]:
    """Yield findings for operations that could never run, for any caller."""
    for number, operation in enumerate(operations):
        for what in _find_mistakes(operation.query, schema, limits):
            yield Finding(f"{_PLACE}.{number}.query", what)


def _find_mistakes(query: str, schema: GraphQLSchema, limits: GraphqlLimits) -> Iterator[str]:
    try:
        document = parse_query(query, limits)
        check_limits(document, limits)
    except OperationRefused as refusal:
        yield from (error.message for error in refusal.errors)
        return
    kinds = [
        node.operation for node in document.definitions if isinstance(node, OperationDefinitionNode)
    ]
    if kinds != [OperationType.QUERY]:
        yield "must be one query, and no other operation"
        return
    yield from (error.message for error in validate(schema, document, max_errors=10))


_PARTS = ("descriptor", "schema", "mappings")
_DESCRIPTOR_KEYS = (
    *("uri", "description", "enabled", "limits", "json-mode", "csv", "operations"),
    *("cache", "live", "federation"),
)
_PREFIX = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,39})?")
_CACHE_KEYS = ("enabled", "max-age-s")
_MAX_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CacheOptions:
    """How answers of the app are cached; `max_age` in seconds, None: until they are outdated."""

    max_age: int | None = None


@dataclass(frozen=True, slots=True)
class FederationOptions:
    """How the app is a subgraph; `prefix` begins the names of generated types."""

    prefix: str = ""


@dataclass(frozen=True, slots=True)
class AppDefinition:
    """One app; `problems` and `remarks` are the errors and warnings found while decoding."""

    id: Any
    uri: str  # without leading and trailing slash
    enabled: bool
    description: str
    schema: str
    mappings: Mapping[str, Any]
    limits: Mapping[str, int]
    json_mode: str | None  # None: the mode of the service
    version: str  # a digest of the whole document
    operations: tuple[DeclaredOperation, ...] = ()
    csv: bool = False  # answers with one list may be CSV
    live: bool | tuple[str, ...] = False  # whether `@live` exists, or the roles that have it
    cache: CacheOptions | None = None  # None: answers are not cached
    federation: FederationOptions | None = None  # None: the app is no subgraph
    problems: tuple[Finding, ...] = field(default=())
    remarks: tuple[Finding, ...] = field(default=())

    def json_mode_or(self, default: str) -> JsonMode:
        """Return the JSON mode of results: that of the descriptor, or this default."""
        return JSON_MODES[self.json_mode or default]

    def has_live(self, roles: Collection[str]) -> bool:
        """Return whether a caller with these roles may run live queries."""
        return self.live is True or (
            self.live is not False and not set(self.live).isdisjoint(roles)
        )


def normalise_uri(uri: str) -> str:
    """Return the URI as request paths are read: no slash at an end, none doubled (decision 1)."""
    if "/" not in uri:
        return uri
    return "/".join(segment for segment in uri.split("/") if segment)


_ESCAPE = re.compile("%(?![0-9a-fA-F]{2})")


def decode_uri(uri: str) -> str:
    """Decode the escapes of a descriptor's URI as in a request path; raise ValueError."""
    for mark in "?#":
        if mark in uri:
            raise ValueError(f"a path ends before {mark!r}; the character itself is {quote(mark)}")
    if _ESCAPE.search(uri):
        raise ValueError("a '%' begins an escape of two hexadecimal digits; itself it is %25")
    segments = []
    for segment in normalise_uri(uri).split("/"):
        try:
            text = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            raise ValueError(f"the escapes of {segment!r} are no UTF-8") from None
        if "/" in text:
            raise ValueError("an escaped slash separates nothing: write a slash")
        segments.append(text)
    if segments == [""]:
        raise ValueError("cannot be empty")
    if not {".", ".."}.isdisjoint(segments):
        raise ValueError("cannot have '.' or '..' as a segment")
    return "/".join(segments)


def read_uri(uri: str) -> str:
    """Return the path where an app with this URI is served; mistakes are not reported."""
    try:
        return decode_uri(uri)
    except ValueError:
        return normalise_uri(uri)


def spell_uri(served: str) -> list[str]:
    """Return the ways in which a descriptor may have written the URI of a served app."""
    escaped = quote(served)
    forms = dict.fromkeys((served, escaped, re.sub("%..", lambda one: one[0].lower(), escaped)))
    return [text for one in forms for text in (one, f"/{one}", f"{one}/", f"/{one}/")]


def decode_definition(document: Mapping[str, Any]) -> AppDefinition:
    """Read a stored or submitted document, with escaped or plain keys (decision 6)."""
    return _Decoder(as_meant(document)).decode()


class _Decoder:
    """Read one document and collect its mistakes."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._problems: list[Finding] = []
        self._remarks: list[Finding] = []

    def decode(self) -> AppDefinition:
        document = self._document
        descriptor = self._read(document, "descriptor", dict, {})
        uri = self._read(descriptor, "uri", str, None, "descriptor.")
        if uri is None and "uri" in descriptor:
            self._problem("descriptor.uri", "cannot be null", "leave it out, or give an address")
        uri = self._check_id(uri)
        self._check_parts()
        self._check_descriptor(descriptor)
        return AppDefinition(
            id=document.get("_id"),
            uri=normalise_uri(str(document.get("_id", "")) if uri is None else uri),
            enabled=self._read(descriptor, "enabled", bool, True, "descriptor."),
            description=self._read(descriptor, "description", str, "", "descriptor."),
            schema=self._require("schema", str, "", "give the schema as SDL text"),
            mappings=self._require("mappings", dict, {}, "map one field of Query at least"),
            limits=self._read_limits(descriptor),
            json_mode=self._read_json_mode(descriptor),
            version=self._digest(),
            operations=read_operations(descriptor.get("operations"), self._problems),
            csv=self._read(descriptor, "csv", bool, False, "descriptor."),
            live=self._read_live(descriptor),
            cache=self._read_cache(descriptor),
            federation=self._read_federation(descriptor),
            problems=tuple(self._problems),
            remarks=tuple(self._remarks),
        )

    def _read(
        self, document: Mapping[str, Any], key: str, kind: type, default: Any, prefix: str = ""
    ) -> Any:
        value = document.get(key)
        if value is None:
            return default
        if not isinstance(value, kind):
            self._problem(f"{prefix}{key}", f"must be {_NOUNS[kind]}, not {describe(value)}")
            return default
        return value

    def _require(self, key: str, kind: type, default: Any, hint: str) -> Any:
        if self._document.get(key) in (None, ""):
            self._problem(key, "is missing", hint)
        return self._read(self._document, key, kind, default)

    def _check_id(self, uri: str | None) -> str | None:
        """Check the id and the URI; return the URI as request paths are read (decisions 1 to 3)."""
        if uri is not None:
            try:
                return decode_uri(uri)
            except ValueError as error:
                self._problem("descriptor.uri", str(error))
                return uri
        identifier = self._document.get("_id")
        if not isinstance(identifier, str) or not identifier or "/" in identifier:
            self._problem(
                "_id",
                "must be a non-empty string without a slash",
                "or give the app its own address in descriptor.uri",
            )
        return None

    def _check_parts(self) -> None:
        """Warn about a misspelled part; other keys of the author's own are allowed."""
        missing = [part for part in _PARTS if part not in self._document]
        others = [key for key in self._document if key not in _PARTS and not key.startswith("_")]
        for key in others if missing else ():
            if meant := find_nearest(key, missing):
                hint = f"did you mean {meant}?"
                self._remarks.append(Finding(key, "is not known and has no effect", hint))

    def _check_descriptor(self, descriptor: Mapping[str, Any]) -> None:
        for key in descriptor:
            where = f"descriptor.{key}"
            if key == "name":
                self._remarks.append(
                    Finding(
                        where,
                        "belongs to version 8 and has no effect: remove descriptor.name",
                        "the name of an app is its _id; descriptor.uri serves it at another "
                        "address",
                    )
                )
            elif key not in _DESCRIPTOR_KEYS:
                nearest = find_nearest(key, _DESCRIPTOR_KEYS)
                known = f"known are {', '.join(_DESCRIPTOR_KEYS)}"
                hint = f"did you mean {nearest}?" if nearest else known
                self._remarks.append(Finding(where, "is not known and has no effect", hint))

    def _read_limits(self, descriptor: Mapping[str, Any]) -> dict[str, int]:
        limits = self._read(descriptor, "limits", dict, {}, "descriptor.")
        found = {}
        for key, value in limits.items():
            where = f"descriptor.limits.{key}"
            if key not in GraphqlLimits.__struct_encode_fields__:
                known = ", ".join(GraphqlLimits.__struct_encode_fields__)
                self._problem(where, "is not a limit", f"limits are {known}")
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                self._problem(where, "must be a whole number above 0")
            else:
                found[key] = min(int(value), _MAX_LIMIT)
        return found

    def _read_cache(self, descriptor: Mapping[str, Any]) -> CacheOptions | None:
        options = self._read(descriptor, "cache", dict, {}, "descriptor.")
        for key in options:
            if key not in _CACHE_KEYS:
                hint = f"options are {', '.join(_CACHE_KEYS)}"
                self._problem(f"descriptor.cache.{key}", "is not an option of the cache", hint)
        max_age = options.get("max-age-s")
        if max_age is not None and (
            not isinstance(max_age, int) or isinstance(max_age, bool) or max_age < 1
        ):
            self._problem("descriptor.cache.max-age-s", "must be a whole number above 0")
            max_age = None
        is_enabled = self._read(options, "enabled", bool, False, "descriptor.cache.")
        return CacheOptions(None if max_age is None else int(max_age)) if is_enabled else None

    def _read_json_mode(self, descriptor: Mapping[str, Any]) -> str | None:
        mode: str | None = self._read(descriptor, "json-mode", str, None, "descriptor.")
        if mode is None or mode in JSON_MODES:
            return mode
        known = ", ".join(JSON_MODES)
        self._problem("descriptor.json-mode", f"{mode!r} is not a mode", f"modes are {known}")
        return None

    def _read_live(self, descriptor: Mapping[str, Any]) -> bool | tuple[str, ...]:
        live = descriptor.get("live")
        if live is None or isinstance(live, bool):
            return bool(live)
        if isinstance(live, list) and live and all(isinstance(role, str) for role in live):
            return tuple(live)
        self._problem("descriptor.live", "must be a boolean or a list of roles")
        return False

    def _read_federation(self, descriptor: Mapping[str, Any]) -> FederationOptions | None:
        value, where = descriptor.get("federation"), "descriptor.federation"
        if value is None or isinstance(value, bool):
            return FederationOptions() if value else None
        if not isinstance(value, dict):
            self._problem(where, f"must be a boolean or an object, not {describe(value)}")
            return None
        for key in value.keys() - {"prefix"}:
            self._problem(f"{where}.{key}", "is not an option", "the option is prefix")
        prefix = value.get("prefix", "")
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            self._problem(f"{where}.prefix", "must be the beginning of a name, such as Shop")
            return FederationOptions()
        return FederationOptions(prefix)

    def _digest(self) -> str:
        try:
            content = encode(self._document, JsonMode.EXTENDED)
        except EncodeError as error:
            self._problem(".".join(map(str, reversed(error.path))), error.reason)
            return ""
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def _problem(self, where: str, what: str, hint: str | None = None) -> None:
        self._problems.append(Finding(where, what, hint))


_NOUNS: Mapping[type, str] = {dict: "an object", str: "a string", bool: "a boolean"}
