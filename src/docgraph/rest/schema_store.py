"""JSON schemas of the collection `_schemas`: load, compile and cache them.

A schema may refer to others of the store by `http://schema-store/<database>/<id>`, and to nothing
else: no address is ever fetched (SSRF). The library is the extra `schema`, imported at first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote, unquote

from docgraph.codec import JsonMode, as_meant, encode
from docgraph.codec.bson_types import ObjectId
from docgraph.codec.pieces import load
from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import BodyTooLarge, DefinitionError, NotSupported
from docgraph.rest.schema_cost import CostError, SchemaCost, measure_schema
from docgraph.runtime import Generations, Lane, LoadingCache, run_blocking
from docgraph.store import Store
from docgraph.store.names import SCHEMA_STORE

DRAFT_4: Final = "http://json-schema.org/draft-04/schema#"
# How a draft calls the identity of a schema, by the name of its meta-schema. That may be written
# with http or https, with an empty fragment or without.
_DRAFTS: Final = {
    "http://json-schema.org/draft-04/schema": "id",
    "http://json-schema.org/draft-06/schema": "$id",
    "http://json-schema.org/draft-07/schema": "$id",
    "https://json-schema.org/draft/2019-09/schema": "$id",
    "https://json-schema.org/draft/2020-12/schema": "$id",
}
_OWN: Final = frozenset({"_id", "_etag"})
_ADDRESS: Final = re.compile(r"http://schema-store/([^/?#]+)/([^/?#]+)")
_HEX: Final = re.compile(r"[0-9a-fA-F]{24}")
_MAX_REFERENCES: Final = 100
_MAX_VIOLATIONS: Final = 20
_KEPT: Final = 1000
_LOAD_MS: Final = 10_000
MAX_PATTERNS: Final = 100  # of a schema and of those that it refers to
_MAX_PATTERN_BYTES: Final = 4 << 20  # of one compiled pattern; ^\p{L}{1,50}$ is half of it
# Of all patterns together. They are compiled in one call, which lets no other thread run: 0.1 s.
_MAX_ALL_BYTES: Final = 16 << 20
_PATTERN_SIZES: Final = tuple(_MAX_PATTERN_BYTES >> step for step in range(6, -1, -1))
MAX_EVALUATIONS: Final = 20_000_000  # of a document: the check lets no other thread run, 0.2 s
MAX_ERRORS: Final = 10_000  # that a document can have; else only the first is looked for
_MAX_MATCHING_BYTES: Final = 8 << 20  # that matching it remembers
_UNLISTED: Final = "the document is too large, or has too many alternatives, to list what is wrong"
_PATTERNS: Final = (
    "patterns are matched in linear time: without lookaround (?=…) (?!…), backreferences \\1, "
    "atomic groups (?>…) and \\Z; instead of (?!…) write not with a second pattern"
)

StoredSchemaKey = tuple[str, Any]


class InvalidSchema(DefinitionError):
    """A schema that cannot validate documents."""

    code: ClassVar[str] = "invalid-schema"


class SchemaUnusable(DefinitionError):
    """A collection names a schema that is missing in the store, or no longer valid."""

    status: ClassVar[int] = 409
    code: ClassVar[str] = "schema-unusable"


def require_library() -> Any:
    """Return the validator library; raise if it is not installed."""
    try:
        import jsonschema_rs
    except ImportError:
        raise NotSupported(
            "JSON schemas need the package jsonschema-rs", hint="pip install 'docgraph[schema]'"
        ) from None
    return jsonschema_rs


def address_of(db: str, id: Any) -> str:
    """Return the address by which other schemas refer to this one."""
    return f"http://schema-store/{quote(db, safe='')}/{quote(str(id), safe='')}"


def identify(document: Mapping[str, Any], db: str) -> Document:
    """Return the schema as it is stored: with its draft and its address."""
    draft = document.get("$schema", DRAFT_4)
    keyword = _find_keyword(draft) if isinstance(draft, str) else None
    if keyword is None:
        raise InvalidSchema(
            "Request content violates JSON Schema meta schema: $schema is not known",
            hint=f"known are {', '.join(_DRAFTS)}",
        )
    address = address_of(db, document["_id"])
    identity = f"{address}#" if keyword == "id" else address
    return {**document, "$schema": draft, keyword: identity}


def _find_keyword(draft: str) -> str | None:
    scheme, separator, name = draft.removesuffix("#").partition("://")
    if scheme.lower() not in ("http", "https"):
        return None
    spellings = (f"{protocol}{separator}{name}" for protocol in ("http", "https"))
    return next((_DRAFTS[spelling] for spelling in spellings if spelling in _DRAFTS), None)


def compile_schema(schema: Mapping[str, Any], others: Mapping[str, Any]) -> Validator:
    """Build a validator; `others` are the schemas that it may refer to, by address.

    Raise `_Unresolved` for an address of the store that is not among them.
    """
    library = require_library()
    missing: list[str] = []
    _check_patterns(library, _find_patterns([schema, *others.values()]))

    def retrieve(address: str) -> Any:
        if address not in others:
            missing.append(address)
            raise KeyError(address)
        return others[address]

    content = _without_own(schema)
    try:
        compiled = library.validator_for(
            content,
            retriever=retrieve,
            mask="the value",  # a message must not show what its reader may not read
            # Without it, patterns that need backtracking would run on the event loop.
            pattern_options=library.RegexOptions(
                size_limit=_MAX_PATTERN_BYTES, dfa_size_limit=_MAX_MATCHING_BYTES
            ),
        )
    except (library.ValidationError, library.ReferencingError) as error:
        if missing and _ADDRESS.fullmatch(missing[0]):
            raise _Unresolved(missing[0]) from None
        if missing:
            raise InvalidSchema(
                f"the schema refers to {missing[0]}, which is not in the schema store",
                hint="references are to http://schema-store/<database>/<id>, nothing is fetched",
            ) from None
        hint = _PATTERNS if _is_pattern(library, error) else None
        raise InvalidSchema(_describe(error), hint=hint) from None
    return Validator(compiled, _measure(content, others))


def _measure(schema: Document, others: Mapping[str, Any]) -> SchemaCost:
    try:
        return measure_schema(schema, others)
    except CostError as error:
        raise InvalidSchema(
            f"the schema takes too long to check documents: {error}",
            hint="refer to a subschema once, or from `properties` and `items`",
        ) from None


def _without_own(schema: Mapping[str, Any]) -> Document:
    """Return the schema without the properties of its stored document."""
    return _to_json({key: value for key, value in schema.items() if key not in _OWN})


def _to_json(value: Document) -> Document:
    content: Document = load(encode(value, JsonMode.STANDARD))
    return content


def _find_patterns(schemas: Iterable[Any]) -> list[str]:
    """Return the regular expressions; compiling each takes time and memory."""
    pending, patterns = list(schemas), list[str]()
    while pending:
        inner = pending.pop()
        if isinstance(inner, Mapping):
            named = inner.get("patternProperties")
            patterns += named if isinstance(named, Mapping) else ()
            patterns += [inner["pattern"]] if isinstance(inner.get("pattern"), str) else ()
            pending += inner.values()
        elif isinstance(inner, list):
            pending += inner
    return patterns


def _check_patterns(library: Any, patterns: list[str]) -> None:
    """Reject patterns that are too expensive to compile; compiling finds the invalid ones."""
    if len(patterns) > MAX_PATTERNS:
        raise InvalidSchema(
            f"the schema and those it refers to have more than {MAX_PATTERNS} patterns",
            hint="name properties in `properties`, or join patterns by |",
        )
    size = 0
    for pattern in dict.fromkeys(patterns):
        size += _measure_pattern(library, pattern)
        if size > _MAX_ALL_BYTES:
            raise InvalidSchema(
                "the patterns of the schema and of those it refers to are larger than "
                f"{_MAX_ALL_BYTES >> 20} MiB when they are compiled",
                hint="repeat less, and classes such as \\p{L} least: maxLength bounds a text",
            )


def _measure_pattern(library: Any, pattern: str) -> int:
    """Return the smallest size limit that the compiled pattern fits in, else the largest."""
    for size in _PATTERN_SIZES:
        try:
            library.validator_for(
                {"pattern": pattern}, pattern_options=library.RegexOptions(size_limit=size)
            )
        except library.ValidationError:
            continue
        return size
    return _MAX_PATTERN_BYTES


def _is_pattern(library: Any, error: Any) -> bool:
    """Return whether the error is about a `pattern` or `patternProperties` of the schema."""
    kind = getattr(error, "kind", None)
    return isinstance(kind, library.ValidationErrorKind.Format) and kind.format == "regex"


def _describe(error: Any) -> str:
    place = "/".join(map(str, getattr(error, "instance_path", ())))
    where = f"#/{place}: " if place else ""
    return f"Request content violates JSON Schema meta schema: {where}{error.message}"


class _Unresolved(Exception):
    """A reference to a stored schema that is not loaded yet."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address


@dataclass(frozen=True, slots=True)
class Validator:
    """A compiled schema."""

    compiled: Any
    cost: SchemaCost

    def find_violations(self, document: Document) -> list[str]:
        """Validate a document in its JSON form; return the first few errors."""
        value = load(encode(document, JsonMode.STANDARD))
        evaluations, errors = self.cost.estimate(value)
        if evaluations > MAX_EVALUATIONS:
            raise BodyTooLarge(
                f"checking the document by its schema needs up to {evaluations} evaluations, "
                f"more than {MAX_EVALUATIONS}",
                hint="write smaller documents, or give the schema fewer alternatives and options",
            )
        if self.compiled.is_valid(value):
            return []
        violations: list[str] = []
        for error in self._find_errors(value, only_first=errors > MAX_ERRORS):
            if len(violations) == _MAX_VIOLATIONS:
                violations.append("…")
                break
            place = "/".join(map(str, error.instance_path))
            violations.append(f"#/{place}: {error.message}" if place else error.message)
        return violations or [_UNLISTED]

    def _find_errors(self, value: Any, *, only_first: bool) -> Iterable[Any]:
        """Return the errors; the library builds all of them before it returns the first."""
        if not only_first:
            errors: Iterable[Any] = self.compiled.iter_errors(value)
            return errors
        if self.cost.has_alternatives:
            return []
        try:
            self.compiled.validate(value)
        except require_library().ValidationError as error:
            return [error]
        return []


async def load_schema(store: Store, db: str, id: Any) -> Document | None:
    """Load a schema with unescaped keys; None if it does not exist."""
    document = await store.reads.find_one(
        db, SCHEMA_STORE, {"_id": id}, deadline=Deadline.after_ms(_LOAD_MS)
    )
    return as_meant(document) if document is not None else None


class Schemas:
    """A cache of the compiled schemas of all databases; own writes invalidate it."""

    def __init__(self, store: Store, generations: Generations, lane: Lane, *, ttl: float) -> None:
        self._store = store
        self._lane = lane
        self._generations = generations
        self._generation = -1
        self._kept: LoadingCache[StoredSchemaKey, Validator] = LoadingCache(
            _KEPT if ttl > 0 else 0, ttl
        )

    async def find(self, db: str, id: Any) -> Validator:
        """Return the validator of a schema; raise `SchemaUnusable`."""
        generation = self._generations.read("collections")
        if generation != self._generation:
            self._kept.clear()
            self._generation = generation
        return await self._kept.get((db, id), self._compile_stored)

    async def close(self) -> None:
        await self._kept.close()

    async def compile(
        self, schema: Mapping[str, Any], coming: Mapping[str, Document] | None = None
    ) -> Validator:
        """Compile a schema with its references; `coming` are not stored yet, by address."""
        others: dict[str, Any] = {}
        while True:
            try:
                return await run_blocking(self._lane, compile_schema, schema, others)
            except _Unresolved as unresolved:
                if len(others) >= _MAX_REFERENCES:
                    raise InvalidSchema(
                        f"the schema refers to more than {_MAX_REFERENCES} others"
                    ) from None
                address = unresolved.address
                target = (coming or {}).get(address) or await self._load_address(address)
                others[address] = _without_own(target)

    async def _compile_stored(self, key: StoredSchemaKey) -> Validator:
        db, id = key
        schema = await load_schema(self._store, db, id)
        place = f"schema {db}/{SCHEMA_STORE}/{id}"
        if schema is None:
            raise SchemaUnusable(f"wrong 'jsonSchema': {place} not found")
        try:
            return await self.compile(schema)
        except InvalidSchema as error:
            message = f"wrong 'jsonSchema': {place}: {error.message}"
            raise SchemaUnusable(message, hint=error.hint) from None

    async def _load_address(self, address: str) -> Document:
        match = _ADDRESS.fullmatch(address)
        assert match is not None  # noqa: S101 - only such addresses are unresolved
        db, id = unquote(match[1]), unquote(match[2])
        schema = await load_schema(self._store, db, id)
        if schema is None and _HEX.fullmatch(id):
            schema = await load_schema(self._store, db, ObjectId(id))
        if schema is None:
            raise InvalidSchema(f"the schema refers to {address}, which is not in the schema store")
        return schema
