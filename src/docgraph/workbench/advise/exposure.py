"""Exposure: lists without a limit, and secrets that every caller can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from graphql import GraphQLObjectType, get_named_type

from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.definition.mapping import AggregationMapping, FieldMapping, QueryMapping
from docgraph.graphql.definition.visibility import find_visible
from docgraph.graphql.sections import Graphql
from docgraph.variables import GRAPHQL, flatten_stages
from docgraph.workbench.advise.accesses import Access, find_accesses
from docgraph.workbench.advise.advice import Advice, Weight
from docgraph.workbench.advise.look import Look, Place
from docgraph.workbench.infer.sensitive import is_secret

_BOUNDING: Final = frozenset(
    {"$limit", "$sample", "$count", "$group", "$bucket", "$bucketAuto", "$sortByCount", "$facet"}
)
_MULTIPLYING: Final = frozenset({"$unwind", "$unionWith"})
_HARMLESS: Final = frozenset({"Boolean", "DateTime"})  # whether a secret exists, or since when
_FEWEST_VALUES: Final = 3


def find_unlimited(access: Access, look: Look | None, settings: Graphql) -> Iterator[Advice]:
    """Yield lists that only the configuration bounds."""
    mapping = access.mapping
    size = None if look is None else look.documents
    if not access.is_list or (look is not None and look.listed is None):
        return
    if isinstance(mapping, QueryMapping):
        if mapping.limit is not None or "_id" in (mapping.find.source or {}):
            return
        most = settings.default_limit
        what = f"a list without a limit: it ends after {most} documents (graphql.default-limit), "
        what += "and callers cannot ask for fewer, or for the rest"
        hint = 'give it arguments: limit: {$arg: ["limit", 20]}, skip: {$arg: ["skip", 0]}'
    else:
        if _is_bounded(_list_stages(mapping)):
            return
        most = settings.max_limit
        what = f"an aggregation without $limit: more than {most} results are an error"
        what += " (graphql.max-limit)"
        hint = "end it with a $limit"
    is_large = size is None or size > most
    weight = Weight.WARNING if is_large and access.is_root else Weight.NOTE
    place = ".".join(access.place)
    yield Advice(weight, "unlimited-list", what, access.app_id, access.where, hint, place)


def _is_bounded(stages: list[Mapping[str, object]]) -> bool:
    """Return whether the stages return few results, whatever the data are."""
    names = {name for one in stages for name in one}
    first = stages[0].get("$match") if stages else None
    is_single = isinstance(first, Mapping) and "_id" in first and not names & _MULTIPLYING
    return is_single or bool(names & _BOUNDING)


def _list_stages(mapping: AggregationMapping) -> list[Mapping[str, object]]:
    return list(flatten_stages(mapping.stages.source, GRAPHQL.optional))


def find_secrets(
    app: App, looks: Mapping[Place, Look], *, is_open: bool | None
) -> Iterator[Advice]:
    """Yield fields like passwords that every caller of the app sees."""
    visibility = app.visibility
    visible = find_visible(app.schema, visibility.hidden_from(()), visibility.follows)
    accesses = list(find_accesses(app))
    for type_name, fields in app.mappings.items():
        type_ = app.schema.type_map.get(type_name)
        if not isinstance(type_, GraphQLObjectType):
            continue
        places = [one for one in accesses if one.item_type is type_]
        if places and all(map(_is_own, places)):
            continue  # callers find only their own documents
        for name, mapping in fields.items():
            if (
                (type_name, name) in visible
                and isinstance(mapping, FieldMapping)
                and get_named_type(type_.fields[name].type).name not in _HARMLESS
                and (reason := _find_reason(type_name, name, mapping, places, looks))
            ):
                yield _warn(app, f"{type_name}.{name}", reason, is_open)


def _is_own(access: Access) -> bool:
    return any(name.startswith("@user") for name in access.names)


def _find_reason(
    type_name: str,
    name: str,
    mapping: FieldMapping,
    places: list[Access],
    looks: Mapping[Place, Look],
) -> str:
    if is_secret(name, type_name) or is_secret(" ".join(mapping.path[-2:]), type_name):
        return "its name says that it holds a secret"
    for access in places:
        look = looks.get(access.place)
        seen = None if look is None else look.find_seen(mapping.text)
        if seen is None or seen.filled < _FEWEST_VALUES:
            continue
        if seen.holds_secrets(mapping.path[-1], type_name):
            return "its values look like hashes of passwords, keys or tokens"
    return ""


def _warn(app: App, field: str, reason: str, is_open: bool | None) -> Advice:
    who = "everyone, also without a login, may" if is_open else "everyone who may call the app can"
    return Advice(
        Weight.ERROR if is_open else Weight.WARNING,
        "secret-readable",
        f"{who} read it, and {reason}",
        str(app.definition.id),
        f"schema: {field}",
        "remove the field, or hide it: @visible(roles: [...])",
    )
