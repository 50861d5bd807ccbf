"""Upper bounds of the work of validating a document, from its JSON schema and its shape.

The library validates a document in one call that blocks every other thread, and builds all of its
errors, those of alternatives included. So the work is estimated first: a schema is a graph of
subschemas, with edges to subschemas for the same value and for the values in it. The graph gives
the number of evaluations of a value at each depth of a document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

MAX_SUBSCHEMAS: Final = 1_000  # that are evaluated for one value
_MAX_DEPTH: Final = 110  # levels; JSON has 100
_MAX_COST: Final = 1 << 50
_META: Final = ("http://json-schema.org/draft", "https://json-schema.org/draft")
_NAMED: Final = frozenset({"dependencies", "dependentSchemas", "patternProperties", "properties"})
_HERE: Final = frozenset(
    {"allOf", "anyOf", "dependencies", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)
_BY_POSITION: Final = frozenset({"items", "prefixItems"})
_REFERENCES: Final = frozenset({"$dynamicRef", "$recursiveRef", "$ref"})
_DATA: Final = frozenset({"const", "default", "enum", "examples"})  # no subschemas
_BELOW: Final = frozenset(
    (
        "additionalItems additionalProperties contains items patternProperties propertyNames "
        "unevaluatedItems unevaluatedProperties"
    ).split()
)
_EQUAL_COST: Final = 25  # to compare two objects or arrays, in evaluations of a keyword
_PATTERN_COST: Final = 10  # to match one pattern
_VALUES_OF_ERROR: Final = 30  # of an enum that take as long as the error that holds them
_INSTANCE_OF_ERROR: Final = 10  # values of a document, likewise
_TEXT_OF_VALUE: Final = 100  # characters of a text that count as one value more


class CostError(Exception):
    """The cost of a schema has no bound, or a reference in it leads nowhere."""


class _Draft:
    """The keywords by which a draft of JSON Schema identifies subschemas."""

    def __init__(self, schema: Any) -> None:
        name = schema.get("$schema") if isinstance(schema, Mapping) else None
        self.name = name
        self.keyword = "id" if "draft-04" in str(name) else "$id"
        self._is_old = "draft-0" in str(name)

    def is_hidden(self, schema: Mapping[str, Any]) -> bool:
        """Return whether a reference hides its siblings, as in old drafts."""
        return self._is_old and "$ref" in schema


@dataclass(frozen=True, slots=True)
class _Place:
    """A subschema, with the address that its references are relative to."""

    schema: Any
    base: str
    draft: _Draft

    def enter(self, schema: Any) -> _Place:
        """Return the place of a part, or of the subschema itself: an `$id` changes the address."""
        base = self.base
        if isinstance(schema, Mapping) and not self.draft.is_hidden(schema):
            identity = schema.get(self.draft.keyword)
            if isinstance(identity, str) and not identity.startswith("#"):
                base = urldefrag(urljoin(base, identity))[0]
        return _Place(schema, base, self.draft)


@dataclass(slots=True, eq=False)
class _Node:
    """A subschema: its own cost, and the subschemas that are evaluated with it."""

    evaluations: int = 1
    errors: int = 1
    here: list[_Node] = field(default_factory=list)
    choices: list[list[_Node]] = field(default_factory=list)  # one of each list, for the same value
    below: list[_Node] = field(default_factory=list)  # for every value in it
    named: dict[str | int, list[_Node]] = field(default_factory=dict)

    def add(self, costs: Mapping[_Node, int]) -> int:
        """Add the cost of a subschema that is evaluated for the same value."""
        chosen = sum(max(map(costs.__getitem__, those)) for those in self.choices)
        return chosen + sum(map(costs.__getitem__, self.here))


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """The cost of one value, for each depth of a document and for all depths below."""

    evaluations: list[int]
    errors: list[int]
    has_alternatives: bool
    has_names: bool

    def estimate(self, document: Any) -> tuple[int, int]:
        """Return the maximum numbers of evaluations and of errors for a document."""
        evaluations, sizes, level = 0, list[int](), [document]
        while level:
            size, below = len(level), list[Any]()
            for part in level:
                if isinstance(part, str):
                    size += len(part) // _TEXT_OF_VALUE
                elif isinstance(part, Mapping):
                    below += part.values()
                    size += sum(map(len, part)) // _TEXT_OF_VALUE
                elif isinstance(part, list):
                    below += part
            evaluations += size * _get_cost(self.evaluations, len(sizes))
            sizes.append(len(level))
            level = below
        return evaluations, self._estimate_errors(sizes)

    def _estimate_errors(self, sizes: list[int]) -> int:
        """Count errors by size: each contains its whole value; that of a name, the object."""
        errors = inner = 0
        for depth, size in reversed(list(enumerate(sizes))):
            errors += _get_cost(self.errors, depth) * (size + inner // _INSTANCE_OF_ERROR)
            inner += size
        return errors * (1 + inner // _INSTANCE_OF_ERROR) if self.has_names else errors


def _get_cost(costs: list[int], depth: int) -> int:
    return costs[min(depth, len(costs) - 1)]


def measure_schema(schema: Mapping[str, Any], others: Mapping[str, Any]) -> SchemaCost:
    """Measure a schema with the ones it refers to, by address; raise `CostError`."""
    graph = _Graph(schema, others)
    order = _sort_here(graph.nodes)
    count = dict.fromkeys(order, 0)
    for node in order:
        count[node] = 1 + node.add(count)
        if count[node] > MAX_SUBSCHEMAS:
            raise CostError(f"more than {MAX_SUBSCHEMAS} subschemas are evaluated for one value")
    evaluations = _spread(order, graph.root, {node: node.evaluations for node in order})
    errors = _spread(order, graph.root, {node: node.errors for node in order})
    return SchemaCost(evaluations, errors, graph.has_alternatives, graph.has_names)


def _sort_here(nodes: Iterable[_Node]) -> list[_Node]:
    """Return the nodes in topological order: each after those evaluated for the same value."""
    order, state = list[_Node](), dict[_Node, bool]()
    for start in nodes:
        pending = [start]
        while pending:
            node = pending[-1]
            if state.get(node):
                pending.pop()
            elif node in state:  # all below it are done
                state[node] = True
                order.append(pending.pop())
            else:
                state[node] = False
                same = [*node.here, *chain.from_iterable(node.choices)]
                if any(state.get(inner) is False for inner in same):
                    raise CostError("a subschema refers to itself for the same value")
                pending += [inner for inner in same if inner not in state]
    return order


def _spread(order: list[_Node], root: _Node, own_costs: dict[_Node, int]) -> list[int]:
    """Return the highest cost of a value at each depth; the last one is for all depths below."""
    parts = {node: _find_parts(node) for node in order}
    current, costs = own_costs, list[int]()
    while len(costs) < _MAX_DEPTH:
        total = dict[_Node, int]()
        for node in order:
            total[node] = min(_MAX_COST, current[node] + node.add(total))
        costs.append(total[root])
        below = {
            node: max(sum(map(total.__getitem__, part)) for part in parts[node]) for node in order
        }
        if below == current:
            return costs
        current = below
    return [*costs, max(costs)]


def _find_parts(node: _Node) -> list[list[_Node]]:
    """Return the subschemas that can apply to the same contained value, by property name."""
    return [node.below, *(part + node.below for part in node.named.values())]


class _Graph:
    """The subschemas that can be reached from a schema."""

    def __init__(self, schema: Mapping[str, Any], others: Mapping[str, Any]) -> None:
        self._places: dict[str, _Place] = {}  # of identities and anchors
        self._dynamic: dict[str, list[_Place]] = {}
        self._known: dict[int, _Node] = {}
        self._pending: list[tuple[_Place, _Node]] = []
        self.has_alternatives = self.has_names = False
        places = [_Place(other, address, _Draft(other)) for address, other in others.items()]
        root = _Place(schema, "", _Draft(schema))
        for place in (root, *places):
            self._places[place.base] = place
        for place in (root, *places):
            self._index(place)
        self._leaf = _Node()
        self._inner = _Node(_EQUAL_COST)  # compared or inspected with all that is in it
        self._inner.below.append(self._inner)
        self.root = self._get(root)
        while self._pending:
            self._connect(*self._pending.pop())

    @property
    def nodes(self) -> list[_Node]:
        return [*self._known.values(), self._leaf, self._inner]

    def _index(self, start: _Place) -> None:
        pending = [start]
        while pending:
            place = pending.pop()
            schema = place.schema
            if isinstance(schema, list):
                pending += [place.enter(part) for part in schema]
            elif isinstance(schema, Mapping):
                if schema is not start.schema and schema.get("$schema", start.draft.name) != (
                    start.draft.name
                ):
                    raise CostError("a subschema has another $schema than the schema it is in")
                place = place.enter(schema)
                self._record(place, is_root=schema is start.schema)
                pending += [place.enter(part) for key, part in schema.items() if key not in _DATA]

    def _record(self, place: _Place, *, is_root: bool) -> None:
        schema = place.schema
        identity, names = schema.get(place.draft.keyword), [schema.get("$anchor")]
        if isinstance(identity, str) and not place.draft.is_hidden(schema):
            names.append(identity[1:] if identity.startswith("#") else "")
        for keyword in ("$dynamicAnchor", "$recursiveAnchor"):
            if keyword in schema:
                self._dynamic.setdefault(str(schema[keyword]), []).append(place)
                names.append(schema[keyword])
        for name in names:
            if not isinstance(name, str):
                continue
            address = f"{place.base}#{name}".removesuffix("#")
            first = self._places.setdefault(address, place)
            if first.schema is not schema and not is_root:
                raise CostError(f"two subschemas have the identity {name or identity}")

    def _get(self, place: _Place) -> _Node:
        """Return the node of a subschema; its edges are added later, without recursion."""
        if not isinstance(place.schema, Mapping):
            return self._leaf
        node = self._known.get(id(place.schema))
        if node is None:
            node = self._known[id(place.schema)] = _Node()
            self._pending.append((place.enter(place.schema), node))
        return node

    def _connect(self, place: _Place, node: _Node) -> None:
        schema = place.schema
        self._weigh(schema, node)
        for keyword, value in schema.items():
            if keyword in _HERE:
                node.here += self._get_parts(place, keyword).values()
            elif keyword == "properties" or (keyword in _BY_POSITION and isinstance(value, list)):
                for name, part in self._get_parts(place, keyword).items():
                    node.named.setdefault(name, []).append(part)
            elif keyword in _BELOW:
                node.below += self._get_parts(place, keyword).values()
            elif keyword in _REFERENCES and isinstance(value, str):
                node.choices.append(self._follow(place, value, keyword))
        if schema.get("uniqueItems") is True:
            node.below.append(self._inner)

    def _get_parts(self, place: _Place, keyword: str) -> dict[str | int, _Node]:
        """Return the subschemas of a keyword by name or position, or the only one."""
        value = place.schema.get(keyword)
        if keyword in _NAMED and isinstance(value, Mapping):
            parts: Iterable[tuple[str | int, Any]] = value.items()
        elif isinstance(value, list):
            parts = enumerate(value)
        else:
            parts = [(keyword, value)] if value is not None else []
        return {name: self._get(place.enter(part)) for name, part in parts}

    def _weigh(self, schema: Mapping[str, Any], node: _Node) -> None:
        self.has_alternatives |= "anyOf" in schema or "oneOf" in schema
        self.has_names |= "propertyNames" in schema
        node.evaluations += len(schema)
        node.errors += len(schema)
        required = schema.get("dependentRequired")
        node.evaluations += len(required) if isinstance(required, Mapping) else 0
        patterns = schema.get("patternProperties")
        node.evaluations += _PATTERN_COST * ("pattern" in schema)
        if isinstance(patterns, Mapping):
            node.below += [self._leaf] * (_PATTERN_COST * len(patterns))
        options = schema.get("enum")
        if isinstance(options, list):
            node.evaluations += _EQUAL_COST * sum(isinstance(o, dict | list) for o in options)
        for keyword in ("enum", "const", "not"):  # an error holds all of it
            node.errors += _count_values(schema.get(keyword)) // _VALUES_OF_ERROR

    def _follow(self, place: _Place, reference: str, keyword: str) -> list[_Node]:
        address, fragment = urldefrag(urljoin(place.base, reference))
        referenced = self._places.get(f"{address}#{fragment}".removesuffix("#"))
        if referenced is None and fragment.startswith("/"):
            referenced = _descend(self._places.get(address), fragment)
        if referenced is None and address.startswith(_META):
            return [self._inner]
        if referenced is None:
            raise CostError(f"the reference {reference} cannot be followed")
        name = "True" if keyword == "$recursiveRef" else fragment
        dynamic = [] if keyword == "$ref" else self._dynamic.get(name, [])
        return [self._get(target) for target in (referenced, *dynamic)]


def _descend(place: _Place | None, pointer: str) -> _Place | None:
    for step in unquote(pointer).split("/")[1:]:
        if place is None:
            return None
        place = place.enter(place.schema)
        schema, name = place.schema, step.replace("~1", "/").replace("~0", "~")
        if isinstance(schema, Mapping) and name in schema:
            place = place.enter(schema[name])
        elif isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
            place = place.enter(schema[int(name)])
        else:
            return None
    return place


def _count_values(value: Any) -> int:
    pending, count = [value], 0
    while pending:
        inner = pending.pop()
        count += 1
        pending += (
            inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ()
        )
    return count
