"""Hidden uses: mappings that compare or order by a property that some callers do not see.

`@visible` hides a field. A condition or an order on the same property still tells callers about
its values: by an argument they find each one, by a fixed condition they learn some (decision 59).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from graphql import GraphQLSchema, Undefined, get_named_type, is_abstract_type
from graphql.utilities.coerce_input_value import coerce_default_value

from docgraph.graphql.definition.check_effects import find_item_type
from docgraph.graphql.definition.declared_fields import ItemFields
from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.group_visibility import (
    Needs,
    ShownPaths,
)
from docgraph.graphql.definition.mapping import (
    FieldMapping,
    Mappings,
)
from docgraph.graphql.definition.origins import SOMEWHERE, WHOLE, Shape, enter_path
from docgraph.graphql.definition.used_paths import read_used_paths
from docgraph.graphql.definition.used_values import TEXT, UsedPath
from docgraph.graphql.definition.visibility import (
    Coordinates,
    SchemaPart,
    Visibility,
    find_visible,
)

_MAX_ROLES: Final = 32  # that are compared when a definition is written


class HiddenUse(NamedTuple):
    """A use of a property by the mapping of a field.

    `needs` are the fields that show the property. `arguments` are those that the use depends on, as
    written in the mapping. Without the `gates` among them there is no use.
    """

    field: Coordinates
    key: str
    path: str
    needs: Needs
    arguments: tuple[str, ...] = ()
    gates: frozenset[SchemaPart] = frozenset()

    def is_open(self, visible: Collection[SchemaPart]) -> bool:
        """Return whether a caller who sees these parts can make use of it."""
        return self.field in visible and all(one in visible for one in self.gates)

    def is_leak(self, visible: Collection[SchemaPart]) -> bool:
        """Return whether it tells such a caller about a field that is hidden."""
        return self.is_open(visible) and not all(one in visible for one in self.needs)

    def describe(self) -> str:
        """Return what it does, for a message."""
        named = {
            WHOLE: "uses every property",
            SOMEWHERE: "may compare every property",
            TEXT: "uses the text index",
        }
        what = named.get(self.path, f"uses {self.path}")
        return f"{what}{self._with} for callers who do not see {self._hidden}"

    @property
    def label(self) -> str:
        """What can be learned and where, in a few words."""
        return f"{self._hidden} by {'.'.join(self.field)}.{self.key}{self._with}"

    @property
    def _hidden(self) -> str:
        return ", ".join(".".join(one) for one in sorted(self.needs))

    @property
    def _with(self) -> str:
        several = "s" if len(self.arguments) > 1 else ""
        return f" with the argument{several} {', '.join(self.arguments)}" if self.arguments else ""


def find_hidden_uses(
    schema: GraphQLSchema, mappings: Mappings, visibility: Visibility
) -> list[HiddenUse]:
    """Return the uses of properties that only fields with `@visible` show."""
    if not visibility.roles:
        return []
    queries = {
        (type_name, name): mapping
        for type_name, fields in mappings.items()
        for name, mapping in fields.items()
        if not isinstance(mapping, FieldMapping)
    }
    read = {place: read_used_paths(place, mapping) for place, mapping in queries.items()}
    shapes = {place: shape for place, (_, shape) in read.items()}
    documents = _list_documents(schema, queries, shapes)
    uses = [
        (place, use._replace(namespace=namespace, path=path))
        for place, (used, _) in read.items()
        for use in used
        for shape in ({}, *documents.get(use.namespace, ()))
        for namespace, path in enter_path(shape, use.path).get("", {(use.namespace, use.path)})
    ]
    wanted = [(use.namespace, use.path) for _, use in uses if use.path != TEXT]
    shown = ShownPaths(schema, mappings, visibility, wanted, shapes)
    finder = _NeedsFinder(schema, mappings, visibility, shown)
    found: dict[HiddenUse, HiddenUse] = {}  # one for each way to learn about the same fields
    for use in (finder.complete(place, use) for place, use in uses):
        if use.needs:
            found.setdefault(use._replace(path=""), use)
    return list(found.values())


def _list_documents(
    schema: GraphQLSchema, queries: Mapping[Coordinates, Any], shapes: Mapping[Coordinates, Shape]
) -> dict[str, list[Shape]]:
    """Return the shapes of the documents of each type; under `Query`, of all in its fields."""
    documents: dict[str, list[Shape]] = defaultdict(list)
    for place, mapping in queries.items():
        owner: Any = schema.type_map[place[0]]
        item = find_item_type(schema, owner.fields[place[1]], mapping)
        members = schema.get_possible_types(item) if is_abstract_type(item) else (item,)
        roots = ("Query",) if place[0] == "Query" else ()
        for name in (*roots, *(member.name for member in members)):
            documents[name].append(shapes[place])
    return documents


def find_leaks(
    schema: GraphQLSchema, visibility: Visibility, uses: Collection[HiddenUse]
) -> Iterator[HiddenUse]:
    """Yield the uses that tell a caller with one role, or with none, about a hidden field."""
    held = ((), *((role,) for role in sorted(visibility.all_roles)))
    pending = dict.fromkeys(uses)
    for roles in islice(held, _MAX_ROLES + 1):
        if not pending:
            return
        visible = find_visible(schema, visibility.hidden_from(roles), visibility.follows)
        for use in [one for one in pending if one.is_leak(visible)]:
            del pending[use]
            yield use


def warn_hidden_uses(
    schema: GraphQLSchema, mappings: Mappings, visibility: Visibility, findings: Findings
) -> None:
    """Warn about conditions and orders that tell callers about fields that they do not see."""
    leaks = find_leaks(schema, visibility, find_hidden_uses(schema, mappings, visibility))
    for use in leaks:
        argument = "add @visible to the argument, " if use.arguments else ""
        findings.warn(
            f"mappings.{'.'.join(use.field)}.{use.key}",
            use.describe(),
            f"{argument}hide this field from the same roles, or do not use the property",
        )


class _NeedsFinder:
    """Finds the fields that show a used property, and the arguments that gate its use."""

    def __init__(
        self, schema: GraphQLSchema, mappings: Mappings, visibility: Visibility, shown: ShownPaths
    ) -> None:
        self._schema = schema
        self._mappings = mappings
        self._visibility = visibility
        self._shown = shown
        self._items = ItemFields(schema, mappings, {})

    def complete(self, place: Coordinates, use: UsedPath) -> HiddenUse:
        """Return the use with the fields that it depends on."""
        type_: Any = self._schema.type_map[place[0]]
        field = type_.fields[place[1]]
        names = tuple(sorted(n for n in use.given.names if n.partition(".")[0] in field.args))
        gates = frozenset(
            part
            for name in use.given.gating.intersection(names)
            for part in self._find_gates((*place, name.partition(".")[0]), field, name)
        )
        return HiddenUse(place, use.key, use.path, self._find_needs(place, use), names, gates)

    def _find_needs(self, place: Coordinates, use: UsedPath) -> Needs:
        if use.path == TEXT:
            type_: Any = self._schema.type_map[place[0]]
            mapping = self._mappings[place[0]][place[1]]
            item = find_item_type(self._schema, type_.fields[place[1]], mapping)
            restricted = self._visibility.roles
            return frozenset(one for one in self._items.list_texts(item) if one in restricted)
        with_parts = not use.is_shallow
        return self._shown.find_needs(use.namespace, use.path, with_parts=with_parts)

    def _find_gates(self, part: SchemaPart, field: Any, name: str) -> Iterator[SchemaPart]:
        """Yield the argument and the input fields that a name goes through and that can be absent.

        A part with a default for it is never absent.
        """
        given, (_, *steps) = field.args[part[-1]], name.split(".")
        while not _supplies(coerce_default_value(given), steps):
            yield part
            type_ = get_named_type(given.type)
            fields = getattr(type_, "fields", {})
            if not steps or steps[0] not in fields:
                return
            part, given = (type_.name, steps[0]), fields[steps.pop(0)]


def _supplies(default: Any, steps: Sequence[str]) -> bool:
    """Return whether the default of an argument or input field has a value at the end of steps."""
    if isinstance(default, list):
        return any(_supplies(item, steps) for item in default)
    if not steps:
        return default is not Undefined
    return isinstance(default, dict) and _supplies(default.get(steps[0], Undefined), steps[1:])
