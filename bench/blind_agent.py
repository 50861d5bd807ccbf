"""An agent without a model: it knows the tools and the grammar of GraphQL, and nothing else.

It answers questions by fixed rules: search the schema for the question, read the schema, query the
field that matches best with all its values, and count, compare or list what comes back. No name of
an app, a type or a field is in this file. What it cannot find with the tools, it cannot answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    get_named_type,
    get_nullable_type,
    is_leaf_type,
    is_list_type,
    is_required_argument,
)

from docgraph.graphql.schema_search import find_words, stem

# The text that a tool returns.
UseTool = Callable[[str, dict[str, Any]], Awaitable[str]]

_QUOTED = re.compile(r'"([^"]+)"')
_NUMBER = re.compile(r"\b\d+\b")
_HIGHEST = {"most", "highest", "largest", "longest", "latest", "newest", "last", "biggest"}
_LOWEST = {"least", "lowest", "smallest", "shortest", "oldest", "first", "earliest", "cheapest"}
_PLENTY = 1_000


@dataclass
class BlindAgent:
    """One session; schemas that were read are remembered."""

    use: UseTool
    calls: int = 0
    bytes: int = 0
    schemas: dict[str, GraphQLSchema] = field(default_factory=dict)

    async def answer(self, question: str) -> Any:
        """Return a number, or the values of what was found."""
        hits = (await self._ask("search_schema", words=question))["hits"]
        if not hits:
            return None
        app = hits[0]["app"]
        places = [hit["is"].partition("(")[0].partition(":")[0] for hit in hits]
        if app not in self.schemas:
            text = await self._call("get_schema", app=app)
            self.schemas[app] = build_schema(text, assume_valid_sdl=True)
        search = _Search(question, places, self.schemas[app])
        root, arguments = search.choose_root()
        rows = await self._fetch(app, search, root, arguments)
        texts = {key for key, value in arguments.items() if value.startswith('"')}
        if not rows and texts:  # the text may belong to another field
            rest = {key: value for key, value in arguments.items() if key not in texts}
            rows = await self._fetch(app, search, root, rest)
        return search.conclude(rows)

    async def _fetch(
        self, app: str, search: _Search, root: str, arguments: dict[str, str]
    ) -> list[Any]:
        query = search.render(root, arguments)
        content = await self._ask("run_query", app=app, query=query)
        for limit in content.get("limits", ())[:1]:
            if limit["path"] == root and "argument" in limit:
                more = {**arguments, limit["argument"]: str(_PLENTY)}
                content = await self._ask("run_query", app=app, query=search.render(root, more))
        found = (content.get("data") or {}).get(root)
        return found if isinstance(found, list) else [] if found is None else [found]

    async def _ask(self, tool: str, **arguments: Any) -> Any:
        return json.loads(await self._call(tool, **arguments))

    async def _call(self, tool: str, **arguments: Any) -> str:
        text = await self.use(tool, arguments)
        self.calls += 1
        self.bytes += len(text.encode())
        return text


class _Search:
    """One question, and what the search has found for it."""

    def __init__(self, question: str, places: list[str], schema: GraphQLSchema) -> None:
        if schema.query_type is None:
            raise ValueError("nothing can be asked")
        self.schema, self.query = schema, schema.query_type
        self.quoted = _QUOTED.findall(question)
        bare = _QUOTED.sub("", question)
        self.numbers = _NUMBER.findall(bare)
        self.words = list(find_words(bare))
        self.stems = {stem(word) for word in self.words}
        self.ranks = {place: rank for rank, place in reversed(list(enumerate(places)))}

    def choose_root(self) -> tuple[str, dict[str, str]]:
        """Return the field of Query that fits best, with the arguments that the question has."""
        best: tuple[float, str, dict[str, str]] = (-1.0, "", {})
        for name, one in self.query.fields.items():
            arguments = self._find_arguments(one.args)
            if any(is_required_argument(a) and key not in arguments for key, a in one.args.items()):
                continue
            inside = self._inner_places(get_named_type(one.type))
            score = self._rate(f"{self.query.name}.{name}")
            score += 0.7 * max(map(self._rate, inside), default=0.0) + 0.6 * len(arguments)
            score += 1.0 * any(value in self.numbers for value in arguments.values())
            best = max(best, (score, name, arguments), key=lambda each: each[0])
        return best[1], best[2]

    def render(self, root: str, arguments: dict[str, str]) -> str:
        """Return the query for all values below the field."""
        given = ", ".join(f"{key}: {value}" for key, value in arguments.items())
        type_ = get_named_type(self.query.fields[root].type)
        return f"{{ {root}{f'({given})' if given else ''} {self._select(type_, 2)} }}"

    def conclude(self, rows: list[Any]) -> Any:
        """Return what the words of the question ask of the rows."""
        rows = [row for row in rows if row is not None]
        wanted = [text.lower() for text in self.quoted] + sorted(self._find_enum_values())
        for text in wanted:
            matching = [row for row in rows if text in map(str.lower, _texts(row))]
            rows = matching or rows
        if "many" in self.words and not {"per", "each"} & set(self.words):
            if len(rows) == 1 and isinstance(rows[0], int):
                return rows[0]
            column = self._find_column(rows)
            if len(rows) == 1 and column and {stem(one) for one in find_words(column)} & self.stems:
                return rows[0][column]  # how many of something one of them has
            if not set(self.words) & (_HIGHEST | _LOWEST):
                return len(rows)
        return self._compare(rows)

    def _compare(self, rows: list[Any]) -> Any:
        words = set(self.words)
        column = self._find_column(rows)
        if column is None or len(rows) <= 1:
            return rows
        values = [(_number(value), row) for row in rows for value in [_get(row, column)] if value]
        if "average" in words:
            return round(sum(value for value, _ in values) / len(values), 2)
        if words & {"total", "sum"}:
            return round(sum(value for value, _ in values), 2)
        if words & _LOWEST:
            return min(values, key=lambda each: each[0])[1]
        return max(values, key=lambda each: each[0])[1] if words & _HIGHEST else rows

    def _find_column(self, rows: list[Any]) -> str | None:
        """Return the key of numbers or dates that the search ranks best."""
        keys = {
            key
            for row in rows
            if isinstance(row, dict)
            for key, value in row.items()
            if value is not None and _is_comparable(value)
        }
        ranked = sorted(
            (rank, key)
            for place, rank in self.ranks.items()
            for key in keys
            if place.endswith(f".{key}")
        )
        return ranked[0][1] if ranked else None

    def _find_arguments(self, arguments: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for name, one in arguments.items():
            type_ = get_named_type(one.type)
            is_named = bool({stem(word) for word in find_words(name)} & self.stems)
            if isinstance(type_, GraphQLEnumType):
                values = [value for value in type_.values if stem(value.lower()) in self.stems]
                found |= {name: values[0]} if values else {}
            elif self.quoted and type_.name == "String" and (is_named or len(arguments) == 1):
                found[name] = json.dumps(self.quoted[0])
            elif self.numbers and is_required_argument(one) and type_.name in ("Int", "ID"):
                found[name] = self.numbers[0]
        return found

    def _find_enum_values(self) -> set[str]:
        enums = (one for one in self.schema.type_map.values() if isinstance(one, GraphQLEnumType))
        values = {value for one in enums if not one.name.startswith("__") for value in one.values}
        return {value.lower() for value in values if stem(value.lower()) in self.stems}

    def _inner_places(self, type_: Any) -> Iterator[str]:
        for one in self._possible(type_):
            for name, inner in one.fields.items():
                yield f"{one.name}.{name}"
                named = get_named_type(inner.type)
                if isinstance(named, GraphQLEnumType):
                    yield from (f"{named.name}.{value}" for value in named.values)

    def _possible(self, type_: Any) -> list[Any]:
        if isinstance(type_, GraphQLInterfaceType | GraphQLUnionType):
            return [*([] if isinstance(type_, GraphQLUnionType) else [type_]),
                    *self.schema.get_possible_types(type_)]  # fmt: skip
        return [type_] if isinstance(type_, GraphQLObjectType) else []

    def _rate(self, place: str) -> float:
        return 1 / (1 + self.ranks[place]) if place in self.ranks else 0.0

    def _select(self, type_: Any, depth: int) -> str:
        if is_leaf_type(type_):
            return ""
        parts = []
        for one in self._possible(type_):
            fields = " ".join(self._select_fields(one, depth))
            parts.append(fields if one is type_ else f"... on {one.name} {{ {fields} }}")
        return "{ " + " ".join(["__typename", *(part for part in parts if part)]) + " }"

    def _select_fields(self, type_: Any, depth: int) -> Iterator[str]:
        for name, inner in type_.fields.items():
            named = get_named_type(inner.type)
            if any(map(is_required_argument, inner.args.values())):
                continue
            if is_leaf_type(named):
                yield name
            elif depth > 1 and (
                not is_list_type(get_nullable_type(inner.type))
                or f"{type_.name}.{name}" in self.ranks
            ):
                yield f"{name} {self._select(named, depth - 1)}"


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)


def _get(row: Any, key: str) -> Any:
    return row.get(key) if isinstance(row, dict) else None


def _is_comparable(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number or (isinstance(value, str) and bool(re.match(r"-?\d", value)))


def _number(value: Any) -> float:
    if isinstance(value, int | float):
        return float(value)
    digits = re.sub(r"\D", "", value[:19]) if "T" in value else value
    try:
        return float(digits)
    except ValueError:
        return 0.0
