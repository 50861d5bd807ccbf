"""Visibility never leaks: random schemas, random roles."""

from __future__ import annotations

from dataclasses import dataclass

from graphql import (
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    introspection_from_schema,
    parse,
    validate,
    validate_schema,
)
from hypothesis import given
from hypothesis import strategies as st

from docgraph.graphql.definition.check_visibility import check_visibility
from docgraph.graphql.definition.schema import build_schema, parse_schema
from docgraph.graphql.definition.visibility import build_visible_schema, read_visibility

ROLES = ["a", "b", "c"]
TYPES = ["Query", "T0", "T1", "T2", "T3"]
OUTPUTS = ["Int", *TYPES, "U0", "U1", "I0", "E0"]


@dataclass(frozen=True)
class Field:
    owner: str
    name: str
    type: str
    argument: str
    roles: frozenset[str] | None
    argument_roles: frozenset[str] | None = None

    def __str__(self) -> str:
        own = f"(x_{self.name}: {self.argument} {hide(self.argument_roles)})"
        return f"{self.name}{own if self.argument else ''}: {self.type} {hide(self.roles)}"


def hide(roles: frozenset[str] | None) -> str:
    quoted = ", ".join(f'"{role}"' for role in sorted(roles or ()))
    return "" if roles is None else f"@visible(roles: [{quoted}])"


@st.composite
def fields_of(draw: st.DrawFn, owner: str) -> list[Field]:
    count = draw(st.integers(1, 4))
    roles = st.none() | st.frozensets(st.sampled_from(ROLES), max_size=2)
    return [
        Field(
            owner,
            f"{owner.lower()}_{number}",
            draw(st.sampled_from(OUTPUTS)),
            draw(st.sampled_from(["", "Int", "N0", "N1", "E0"])),
            draw(roles),
            draw(roles),
        )
        for number in range(count)
    ]


@st.composite
def schemas(draw: st.DrawFn) -> tuple[str, list[Field]]:
    fields = [field for owner in TYPES for field in draw(fields_of(owner))]
    shared = draw(st.lists(st.sampled_from(["T0", "T1"]), unique=True, min_size=1))
    hidden = draw(st.none() | st.just(frozenset({"a"})))
    common = Field("I0", "common", "Int", "", hidden)
    fields.append(common)
    parts = []
    for owner in TYPES:
        own = [field for field in fields if field.owner == owner]
        implements = "implements I0 " if owner in shared else ""
        inherited = "common: Int" if implements else ""
        parts.append(f"type {owner} {implements}{{ {' '.join(map(str, own))} {inherited} }}")
    parts.append(f"interface I0 {{ {common} }}")
    parts.append("union U0 = T0 | T2 union U1 = T3 enum E0 { X }")
    parts.append(f"input N0 {{ n: N1 i: Int }} input N1 {{ e: E0 {hide(hidden)} }}")
    return "\n".join(parts), fields


def check_that_nothing_hidden_is_shown(
    view: GraphQLSchema, fields: list[Field], roles: set[str]
) -> None:
    shown = str(introspection_from_schema(view))
    for field in fields:
        if field.roles is not None and not field.roles & roles and field.owner != "I0":
            assert f"'{field.name}'" not in shown
        if field.argument_roles is not None and not field.argument_roles & roles:
            assert f"'x_{field.name}'" not in shown


def check_that_everything_is_shown_that_can_be_reached(
    view: GraphQLSchema, fields: list[Field], roles: set[str]
) -> None:
    """What a caller may see is there, and a query for it is valid."""
    for field in fields:
        visible = field.roles is None or bool(field.roles & roles)
        if visible and field.owner == "Query" and field.type == "Int":
            assert validate(view, parse(f"{{{field.name}}}")) == []
    for type_ in view.type_map.values():
        if isinstance(type_, GraphQLObjectType | GraphQLInterfaceType) and type_.name != "Query":
            assert type_.fields


# Making a schema takes longer than all that is asked of it.
@given(schemas(), st.sets(st.sampled_from(ROLES)))
def test_a_view_is_a_valid_schema_of_all_that_its_caller_may_see_and_of_nothing_else(
    generated: tuple[str, list[Field]], roles: set[str]
) -> None:
    """Decisions 20 and 59."""
    text, fields = generated
    document = parse_schema(text)
    schema = build_schema(document)
    visibility = read_visibility(schema)
    assert list(check_visibility(schema, visibility)) == []
    hidden = {part[1] for part in visibility.hidden_from(ROLES) if len(part) == 2}
    assert hidden == {field.name for field in fields if field.roles == frozenset()}

    view = build_visible_schema(document, schema, visibility.hidden_from(roles))

    assert view.query_type is not None
    if view.query_type.fields:
        assert validate_schema(view) == []
    check_that_nothing_hidden_is_shown(view, fields, roles)
    check_that_everything_is_shown_that_can_be_reached(view, fields, roles)
