"""What a query must answer, worked out the slow way: graphql-core's own executor.

Every field that is fetched asks the database for its one parent, through a resolver that knows
nothing of batches, joins or projections. What it shares with the program is what is tested
elsewhere: the templates, the scalars, the type resolvers and the paths of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from bson import CodecOptions
from bson.codec_options import DatetimeConversion
from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLResolveInfo,
    execute_sync,
    is_abstract_type,
    is_composite_type,
    is_enum_type,
    is_list_type,
    is_non_null_type,
)
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from docgraph.codec import JsonMode
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.definition.mapping import AggregationMapping, FieldMapping, QueryMapping
from docgraph.graphql.definition.scalars import serializer
from docgraph.graphql.sections import Graphql
from docgraph.variables import (
    NotBound,
    Scope,
    UnusableValue,
    get_field,
    matches_nothing,
    parse_path,
)

Client = MongoClient[dict[str, Any]]
Path = tuple[str | int, ...]
Problem = tuple[Path, str]

BUILT_IN = frozenset({"String", "Int", "Float", "Boolean", "ID"})
OPTIONS: CodecOptions[dict[str, Any]] = CodecOptions(
    document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


class OracleError(Exception):
    """A failure with the code that docgraph gives it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Node:
    """An object on its way through the executor: its document, and the root above it."""

    value: Any
    root: Any


@dataclass(frozen=True)
class Expected:
    """Data as JSON values, where which errors are, and which lists their limit cut."""

    data: Any
    problems: frozenset[Problem]
    cuts: frozenset[tuple[Path, int]] = frozenset()


class Oracle:
    """Answers queries of one app."""

    def __init__(self, app: VisibleApp, client: Client, settings: Graphql) -> None:
        self._app = app
        self._client = client
        self._settings = settings

    def answer(self, document: DocumentNode, variables: Mapping[str, Any]) -> Expected:
        """The whole answer to the only operation of the document."""
        self._cuts: dict[Path, int] = {}
        result = execute_sync(
            self._app.schema,
            document,
            variable_values=dict(variables),
            field_resolver=self._resolve,
            type_resolver=self._resolve_type,
        )
        problems = frozenset((tuple(e.path or ()), _code_of(e)) for e in result.errors or ())
        data = orjson.loads(orjson.dumps(result.data))
        cuts = frozenset((path, most) for path, most in self._cuts.items() if _has_list(data, path))
        return Expected(data, problems, cuts)

    def _resolve(self, source: Node | None, info: GraphQLResolveInfo[Any], **arguments: Any) -> Any:
        mapping = self._app.app.mappings.get(info.parent_type.name, {}).get(info.field_name)
        if mapping is None or (source is None and isinstance(mapping, FieldMapping)):
            return None
        if isinstance(mapping, FieldMapping):
            assert source is not None
            return self._wrap(info.return_type, mapping.get(source.value), source.root)
        scope = Scope(
            arguments,
            root=source.root if source else None,
            parent=source.value if source else None,
        )
        is_list = _is_list(info.return_type)
        try:
            found = self._fetch(mapping, scope, is_list, tuple(info.path.as_list()))
        except NotBound:
            raise OracleError("variable-not-bound") from None
        except UnusableValue:
            raise OracleError("bad-value") from None
        except OperationFailure:
            raise OracleError("rejected-by-database") from None
        value: Any = found if is_list else (found[0] if found else None)
        return self._wrap(info.return_type, value, source.root if source else None)

    def _fetch(
        self, mapping: QueryMapping | AggregationMapping, scope: Scope, is_list: bool, path: Path
    ) -> list[Any]:
        database = self._client.get_database(mapping.db, codec_options=OPTIONS)
        collection = database[mapping.collection]
        if isinstance(mapping, AggregationMapping):
            keys = [get_field(scope.parent, parse_path(key)) for key in mapping.stages.foreign_keys]
            if keys and all(key is None for key in keys):
                return []
            stages = mapping.stages.render(scope)
            found = list(collection.aggregate(stages)) if stages else []
            if is_list and len(found) > self._settings.max_limit:
                raise OracleError("too-many-results")
            return found
        sort = mapping.sort.render(scope) if mapping.sort else None
        skip = _count(mapping.skip, scope, "skip")
        limit = (
            (_count(mapping.limit, scope, "limit") or self._settings.default_limit)
            if is_list
            else 1
        )
        if limit > self._settings.max_limit:
            raise OracleError("limit-too-high")
        filter_ = mapping.find.render(scope)
        if matches_nothing(filter_):
            return []
        cursor = collection.find(filter_).skip(skip).limit(limit + 1)
        if sort and "_id" not in sort:  # decision 12
            sort = {**sort, "_id": list(sort.values())[-1]}
        found = list(cursor.sort(list(sort.items())) if sort else cursor)
        if is_list and len(found) > limit:
            self._cuts[path] = limit
        return found[:limit]

    def _wrap(self, type_: Any, value: Any, root: Any) -> Any:
        """The value as graphql-core can complete it; what does not fit is an exception inside."""
        if value is None:
            return None
        if is_non_null_type(type_):
            return self._wrap(type_.of_type, value, root)
        if is_list_type(type_):
            if not isinstance(value, list):
                return OracleError("value-does-not-fit")
            return [self._wrap(type_.of_type, item, root) for item in value]
        if is_composite_type(type_):
            if isinstance(value, list) or not (isinstance(value, dict) or is_abstract_type(type_)):
                return OracleError("value-does-not-fit")
            return Node(value, value if root is None else root)
        return self._show(type_, value)

    def _show(self, type_: Any, value: Any) -> Any:
        try:
            if is_enum_type(type_):
                return type_.values[self._app.app.enums[type_.name].name_of(value)].value
            shown = serializer(type_.name, JsonMode.GRAPHQL)(value)
        except ValueError:
            return OracleError("value-does-not-fit")
        return shown if type_.name in BUILT_IN else value

    def _resolve_type(self, node: Node, info: GraphQLResolveInfo[Any], type_: Any) -> str | None:
        return self._app.app.type_resolvers[type_.name].resolve(node.value)


def _count(template: Any, scope: Scope, name: str) -> int:
    value = template.render(scope) if template else 0
    if value is None:
        return 0
    if value < 0:
        raise OracleError(f"negative-{name}")
    return int(value)


def _has_list(data: Any, path: Path) -> bool:
    for step in path:
        if data is None:
            return False
        data = data[step]
    return isinstance(data, list)


def _is_list(type_: Any) -> bool:
    return is_list_type(type_.of_type if is_non_null_type(type_) else type_)


def _code_of(error: GraphQLError) -> str:
    original = error.original_error
    if isinstance(original, OracleError):
        return original.code
    if "Abstract type" in error.message or "must resolve to" in error.message:
        return "type-not-resolved"
    if "non-nullable" in error.message:
        return "null-in-non-null"
    return f"unexpected: {error.message}"
