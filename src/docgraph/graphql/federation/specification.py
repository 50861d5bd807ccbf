"""The directives of Federation 1 and 2: since which version they exist, and how SDL declares them.

`{name}` is the local name of a directive, which `@link` may change, and `{FieldSet}`, `{Scope}` and
`{Policy}` are those of the scalars of the specification.
"""

from __future__ import annotations

from typing import Final, NamedTuple

LATEST: Final = (2, 14)
ADDRESS: Final = "https://specs.apollo.dev/federation/"
FIELD_SETS: Final = frozenset({"key", "requires", "provides"})
ENFORCED_BY_GATEWAYS: Final = frozenset(
    {"authenticated", "requiresScopes", "policy", "inaccessible"}
)

_TYPES: Final = "OBJECT | INTERFACE | SCALAR | ENUM"
_TAGGED: Final = (
    "FIELD_DEFINITION | INTERFACE | OBJECT | UNION | ARGUMENT_DEFINITION | SCALAR | ENUM"
    " | ENUM_VALUE | INPUT_OBJECT | INPUT_FIELD_DEFINITION"
)


class DirectiveSpec(NamedTuple):
    """A directive of Federation 2: its first version, and its declaration."""

    since: int
    arguments: str
    places: str
    is_repeatable: bool = False

    def declare(self, local_name: str) -> str:
        """Return the declaration as SDL, with names of scalars still open."""
        repeatable = " repeatable" if self.is_repeatable else ""
        return f"directive @{local_name}{self.arguments}{repeatable} on {self.places}"


DIRECTIVES: Final = {
    "key": DirectiveSpec(
        0, "(fields: {FieldSet}!, resolvable: Boolean = true)", "OBJECT | INTERFACE", True
    ),
    "requires": DirectiveSpec(0, "(fields: {FieldSet}!)", "FIELD_DEFINITION"),
    "provides": DirectiveSpec(0, "(fields: {FieldSet}!)", "FIELD_DEFINITION"),
    "external": DirectiveSpec(0, "(reason: String)", "OBJECT | FIELD_DEFINITION"),
    "tag": DirectiveSpec(0, "(name: String!)", f"{_TAGGED} | SCHEMA", True),
    "extends": DirectiveSpec(0, "", "OBJECT | INTERFACE"),
    "shareable": DirectiveSpec(0, "", "OBJECT | FIELD_DEFINITION", True),
    "inaccessible": DirectiveSpec(0, "", _TAGGED),
    "override": DirectiveSpec(0, "(from: String!, label: String)", "FIELD_DEFINITION"),
    "composeDirective": DirectiveSpec(1, "(name: String!)", "SCHEMA", True),
    "interfaceObject": DirectiveSpec(3, "", "OBJECT"),
    "authenticated": DirectiveSpec(5, "", f"FIELD_DEFINITION | {_TYPES}"),
    "requiresScopes": DirectiveSpec(5, "(scopes: [[{Scope}!]!]!)", f"FIELD_DEFINITION | {_TYPES}"),
    "policy": DirectiveSpec(6, "(policies: [[{Policy}!]!]!)", f"FIELD_DEFINITION | {_TYPES}"),
}
# What a directive was before the version that gave it its form above.
_BEFORE: Final = {
    "shareable": (2, DirectiveSpec(0, "", "OBJECT | FIELD_DEFINITION")),
    "tag": (3, DirectiveSpec(0, "(name: String!)", _TAGGED, True)),
    "override": (7, DirectiveSpec(0, "(from: String!)", "FIELD_DEFINITION")),
}
SCALARS: Final = ("FieldSet", "Scope", "Policy")
LINK: Final = """
directive @link(
  url: String!, as: String, for: link__Purpose, import: [link__Import]
) repeatable on SCHEMA
scalar link__Import
enum link__Purpose { SECURITY EXECUTION }
"""
FIRST: Final = f"""
scalar _FieldSet
directive @key(fields: _FieldSet!, resolvable: Boolean = true) repeatable on OBJECT | INTERFACE
directive @requires(fields: _FieldSet!) on FIELD_DEFINITION
directive @provides(fields: _FieldSet!) on FIELD_DEFINITION
directive @external(reason: String) on OBJECT | FIELD_DEFINITION
directive @extends on OBJECT | INTERFACE
directive @tag(name: String!) repeatable on {_TAGGED}
"""
FIRST_NAMES: Final = ("key", "requires", "provides", "external", "extends", "tag")
SERVICE: Final = '''
"""The schema of this subgraph, for gateways."""
type _Service { sdl: String! }
extend type Query { _service: _Service! }
'''


ENTITIES: Final = '''
"""A representation of an entity: its `__typename`, and the fields of one of its keys."""
scalar _Any
"""The types that a gateway may ask for by a key."""
union _Entity = {names}
extend type Query {{ _entities(representations: [_Any!]!): [_Entity]! }}
'''


def list_directives(minor: int) -> dict[str, DirectiveSpec]:
    """Return the directives of this version of Federation 2, in the form that they have there."""
    specs = {name: spec for name, spec in DIRECTIVES.items() if spec.since <= minor}
    return specs | {name: spec for name, (since, spec) in _BEFORE.items() if minor < since}


def spell_versions() -> str:
    """Return the supported versions as text."""
    return f"v2.0 to v{LATEST[0]}.{LATEST[1]}, and Federation 1 without @link"
