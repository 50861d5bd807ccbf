"""The federation part of an app's SDL: the version and the names that `@link` imports.

A subgraph is the author's document with the declarations of the specification. They become part of
the document, so that validation, visibility and introspection see them like the author's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from graphql import (
    BooleanValueNode,
    ConstDirectiveNode,
    DefinitionNode,
    DirectiveDefinitionNode,
    DocumentNode,
    EnumTypeDefinitionNode,
    FieldDefinitionNode,
    InterfaceTypeDefinitionNode,
    InterfaceTypeExtensionNode,
    ListValueNode,
    NameNode,
    Node,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    ObjectValueNode,
    ScalarTypeDefinitionNode,
    SchemaDefinitionNode,
    SchemaExtensionNode,
    StringValueNode,
    TypeDefinitionNode,
    parse,
)

from docgraph.graphql.federation.specification import (
    ADDRESS,
    DIRECTIVES,
    ENTITIES,
    FIRST,
    FIRST_NAMES,
    LATEST,
    LINK,
    SCALARS,
    SERVICE,
    list_directives,
    spell_versions,
)

SERVICE_FIELD: Final = "_service"
ENTITIES_FIELD: Final = "_entities"
OWN_FIELDS: Final = frozenset({SERVICE_FIELD, ENTITIES_FIELD})
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")
_NAME: Final = re.compile(r"@?[A-Za-z_][A-Za-z0-9_]*")
_TYPES: Final = frozenset(
    {"_Service", "_Entity", "_Any", "_FieldSet", "link__Import", "link__Purpose"}
)
_DEFINED: Final[dict[Any, Any]] = {
    ObjectTypeExtensionNode: ObjectTypeDefinitionNode,
    InterfaceTypeExtensionNode: InterfaceTypeDefinitionNode,
}


class LinkFlaw(NamedTuple):
    """A mistake in a `@link`, at a node of the author's SDL."""

    node: Node
    what: str
    hint: str | None = None


@dataclass(frozen=True)
class Subgraph:
    """How an SDL names the directives of the specification; `minor` is None for Federation 1."""

    names: Mapping[str, str]  # the local name of each directive
    minor: int | None = None
    scalars: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_first(self) -> bool:
        """Whether the schema is one of Federation 1."""
        return self.minor is None

    def find(self, node: Any, directive: str) -> list[ConstDirectiveNode]:
        """Return the uses of a directive of the specification on a node."""
        local = self.names.get(directive)
        return [use for use in getattr(node, "directives", None) or () if use.name.value == local]

    def extend(self, document: DocumentNode) -> DocumentNode:
        """Return the document with the declarations that it lacks, and extended types defined."""
        declared_names = {
            node.name.value
            for node in document.definitions
            if isinstance(node, DirectiveDefinitionNode)
        }
        declared = [
            node
            for node in (*self._declare(), *self._declare_entities(document))
            if not (isinstance(node, DirectiveDefinitionNode) and node.name.value in declared_names)
        ]
        definitions = tuple(
            node for node in self._define_extended(document) if not self._is_repeated(node)
        )
        return DocumentNode(definitions=(*definitions, *declared), loc=document.loc)

    def is_declared(self, node: DefinitionNode) -> bool:
        """Return whether a definition is one of the specification, which gateways know."""
        name = getattr(getattr(node, "name", None), "value", "")
        if isinstance(node, DirectiveDefinitionNode):
            return name == "link" or name in self.names.values()
        return name in _TYPES or name in self.scalars.values()

    def _is_repeated(self, node: DefinitionNode) -> bool:
        """Return whether the author repeats a scalar or an enum of the specification."""
        is_leaf = isinstance(node, ScalarTypeDefinitionNode | EnumTypeDefinitionNode)
        return is_leaf and self.is_declared(node)

    def _declare(self) -> tuple[DefinitionNode, ...]:
        if self.minor is None:
            return _parse(FIRST + SERVICE)
        texts = [
            spec.declare(self.names[name]).format(**self.scalars)
            for name, spec in list_directives(self.minor).items()
        ]
        texts += [f"scalar {local}" for local in self.scalars.values()]
        return _parse("\n".join((*texts, LINK, SERVICE)))

    def _declare_entities(self, document: DocumentNode) -> tuple[DefinitionNode, ...]:
        """Return `_entities`, if objects of a type are found by a key."""
        names = [
            node.name.value
            for node in document.definitions
            if isinstance(node, ObjectTypeDefinitionNode | ObjectTypeExtensionNode)
            and any(map(read_resolvable, self.find(node, "key")))
        ]
        if not names:
            return ()
        return _parse(ENTITIES.format(names=" | ".join(dict.fromkeys(names))))

    def _define_extended(self, document: DocumentNode) -> Iterator[DefinitionNode]:
        """Yield the definitions; the first extension of a type without one becomes it."""
        defined = {
            node.name.value for node in document.definitions if isinstance(node, TypeDefinitionNode)
        }
        for node in document.definitions:
            if not isinstance(node, ObjectTypeExtensionNode | InterfaceTypeExtensionNode) or (
                node.name.value in defined
            ):
                yield node
                continue
            defined.add(node.name.value)
            yield _DEFINED[type(node)](
                name=node.name,
                directives=self._mark_extended(node),
                interfaces=node.interfaces,
                fields=node.fields,
                loc=node.loc,
            )

    def _mark_extended(self, node: Any) -> tuple[ConstDirectiveNode, ...]:
        """Return the directives of an extension: Federation 1 composes it by `@extends`."""
        directives = tuple(node.directives or ())
        if not self.is_first or node.name.value == "Query" or self.find(node, "extends"):
            return directives
        return (*directives, build_directive("extends"))


@lru_cache(maxsize=64)
def _parse(text: str) -> tuple[DefinitionNode, ...]:
    return parse(text, no_location=True).definitions


def is_own_field(name: str, node: FieldDefinitionNode | None) -> bool:
    """Return whether a field of Query is one of the specification, and not the author's."""
    return name in OWN_FIELDS and node is not None and node.loc is None


def build_directive(name: str) -> ConstDirectiveNode:
    """Build a use of a directive without arguments."""
    return ConstDirectiveNode(name=NameNode(value=name), arguments=())


def read_subgraph(document: DocumentNode) -> tuple[Subgraph, list[LinkFlaw]]:
    """Return the names that the SDL imports, and the mistakes of its `@link`s."""
    links = [link for link in _list_links(document) if _text(link, "url").startswith(ADDRESS)]
    if not links:
        return Subgraph({name: name for name in FIRST_NAMES}), []
    subgraph, flaws = _read_link(links[0])
    flaws += [LinkFlaw(link, "federation is linked twice", "keep one link") for link in links[1:]]
    return subgraph, flaws


def _list_links(document: DocumentNode) -> Iterator[ConstDirectiveNode]:
    for node in document.definitions:
        if isinstance(node, SchemaDefinitionNode | SchemaExtensionNode):
            yield from (link for link in node.directives or () if link.name.value == "link")


def _read_link(link: ConstDirectiveNode) -> tuple[Subgraph, list[LinkFlaw]]:
    version = _text(link, "url").removeprefix(ADDRESS)
    match = _VERSION.fullmatch(version)
    number = (int(match[1]), int(match[2])) if match else (0, 0)
    flaws: list[LinkFlaw] = []
    if not (2, 0) <= number <= LATEST:
        what = f"the version {version or '(none)'} of federation is not supported"
        flaws.append(LinkFlaw(link, what, f"supported are {spell_versions()}"))
        number = LATEST
    namespace = _text(link, "as") or "federation"
    names = {name: f"{namespace}__{name}" for name in DIRECTIVES}
    scalars = {name: f"{namespace}__{name}" for name in SCALARS}
    for node, name, local in _list_imports(link, flaws):
        if name.removeprefix("@") in names and name.startswith("@"):
            since = DIRECTIVES[name[1:]].since
            if since > number[1]:
                what = f"{name} does not exist in the version v{number[0]}.{number[1]}"
                flaws.append(LinkFlaw(node, what, f"link v2.{since} or a later one"))
            names[name[1:]] = local.removeprefix("@")
        elif name in scalars:
            scalars[name] = local
        else:
            hint = f"supported are {spell_directives()}"
            flaws.append(LinkFlaw(node, f"{name} cannot be imported from federation", hint))
    return Subgraph(names, number[1], scalars), flaws


def _list_imports(
    link: ConstDirectiveNode, flaws: list[LinkFlaw]
) -> Iterator[tuple[Node, str, str]]:
    """Yield each import: its node, the name in the specification, and the local name."""
    value = _argument(link, "import")
    for item in value.values if isinstance(value, ListValueNode) else ():
        parts = _members(item)
        name, local = parts.get("name", ""), parts.get("as") or parts.get("name", "")
        is_alike = name.startswith("@") == local.startswith("@")
        if not (_NAME.fullmatch(name) and _NAME.fullmatch(local) and is_alike):
            what = 'an import of @link must be a name, such as "@key", or {name, as} of one kind'
            flaws.append(LinkFlaw(item, what))
            continue
        yield item, name, local


def _members(item: Node) -> dict[str, str]:
    if isinstance(item, StringValueNode):
        return {"name": item.value}
    fields = item.fields if isinstance(item, ObjectValueNode) else ()
    return {
        part.name.value: part.value.value
        for part in fields
        if isinstance(part.value, StringValueNode)
    }


def _argument(directive: ConstDirectiveNode, name: str) -> Any:
    given = (part.value for part in directive.arguments or () if part.name.value == name)
    return next(given, None)


def _text(directive: ConstDirectiveNode, name: str) -> str:
    value = _argument(directive, name)
    return value.value if isinstance(value, StringValueNode) else ""


def read_text(directive: ConstDirectiveNode, name: str) -> str:
    """Return an argument of a directive that is a string; empty without it."""
    return _text(directive, name)


def read_resolvable(directive: ConstDirectiveNode) -> bool:
    """Return whether a `@key` is one by which this subgraph finds objects."""
    value = _argument(directive, "resolvable")
    return not (isinstance(value, BooleanValueNode) and not value.value)


def spell_directives() -> str:
    """Return the supported directives as text."""
    return ", ".join(f"@{name}" for name in DIRECTIVES)


def suggest(subgraph: Subgraph, name: str) -> str:
    """Return what to do about an unknown directive of a subgraph."""
    local = subgraph.names.get(name)
    if local is not None and local != name:
        return f'import it by @link (import: ["@{name}"]), or write @{local}'
    return f"supported are {spell_directives()}; declare other directives in the schema"
