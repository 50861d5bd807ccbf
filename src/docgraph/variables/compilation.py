"""Template compilation: the names and flaws found so far, and operators compiled to closures.

A template is compiled once into closures over a `Scope`. Each part of it has a `Position` (a
filter, a condition, an expression, …) that defines how a literal part is compiled there and how a
supplied value is adapted: a value of a caller can never become an operator (NoSQL injection).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from docgraph.variables.errors import Flaw, MissingKey, NotBound
from docgraph.variables.paths import (
    ValueOrigin,
    VariableName,
    compile_field,
    parse_path,
    parse_reference,
    render_path,
)
from docgraph.variables.resolvers import Scope
from docgraph.variables.shapes import OperatorKind, StagePart, UnknownOperator, is_known
from docgraph.variables.value_marks import NOTHING, UNBOUND

MAX_DEPTH = 100
MAX_UNKNOWN = 100  # operators of a template that only the database may know

Render = Callable[[Scope], Any]
PartPath = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The operators of a template; an empty one does not exist there."""

    argument: str
    optional: str
    foreign_key: str = ""

    @property
    def operators(self) -> frozenset[str]:
        return frozenset({self.argument, self.optional, self.foreign_key} - {""})


GRAPHQL = Vocabulary("$arg", "$ifarg", "$fk")
REST = Vocabulary("$var", "$ifvar")


@dataclass(frozen=True, slots=True)
class ConstantTemplate:
    """A part without operators: it renders to itself."""

    value: Any

    def __call__(self, scope: Scope) -> Any:
        return self.value


@dataclass(frozen=True, slots=True)
class Position:
    """How parts of a template are compiled in one kind of position.

    `literal` compiles the author's text, `adapt` an argument, `adapt_stored` a value that no caller
    wrote (of the root document or a variable), `adapt_key` the value of a foreign key. `absent`
    replaces a null from a default and, outside of relations, a missing foreign key. `closed` is the
    reason why nothing can be supplied here. `choices` is the position of `$in` below it, if it
    differs from the usual one, and `optional` compiles an optional part, where one is allowed.
    """

    literal: Callable[[TemplatePart], Render]
    adapt: Callable[[Any], Any]
    adapt_stored: Callable[[Any], Any] | None = None
    adapt_key: Callable[[Any], Any] | None = None
    absent: Any = NOTHING
    closed: str = ""
    choices: Position | None = None
    optional: Callable[[TemplatePart], Render] | None = None


@dataclass(frozen=True, slots=True)
class TemplatePart:
    """A part of a template: its value, its location, and the position that it is compiled in."""

    compilation: Compilation
    value: Any
    where: PartPath
    position: Position

    def at(self, step: str | int, value: Any) -> TemplatePart:
        """Return the part below this one."""
        return replace(self, value=value, where=(*self.where, step))

    def build(self, step: str | int, value: Any, position: Position) -> Render:
        """Compile the part below this one."""
        return self.compilation.build(value, (*self.where, step), position)

    def build_members(self, position: Position) -> dict[str, Render]:
        """Compile the members of an object."""
        return {key: self.build(key, member, position) for key, member in self.value.items()}

    def build_elements(self, position: Position) -> list[Render]:
        """Compile the elements of an array."""
        return [self.build(step, element, position) for step, element in enumerate(self.value)]

    def flaw(self, what: str, hint: str | None = None) -> Render:
        """Record a mistake and continue, so that all of them are found."""
        return self.compilation.flaw(self.where, what, hint)

    def misfit(self, wanted: str) -> Render:
        """Record that the value is of another kind."""
        return self.flaw(f"must be {wanted}, not {describe(self.value)}")


def render_place(place: PartPath) -> str:
    """Render a location: `author.$arg`, `stages[0].$match`."""
    text = ""
    for step in place:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A location where a template gets a value; without a `reference` it is a foreign key."""

    place: PartPath
    reference: VariableName | None
    is_required: bool = True

    @property
    def where(self) -> str:
        return render_place(self.place)


@dataclass(slots=True)
class Compilation:
    """Collects names and flaws while a template is compiled."""

    vocabulary: Vocabulary
    is_relation: bool = False  # a filter or stages, which without a foreign key find nothing
    flaws: list[Flaw] = field(default_factory=list)
    uses: list[Placeholder] = field(default_factory=list)
    foreign_keys: set[str] = field(default_factory=set)
    root_paths: set[str] = field(default_factory=set)
    options: dict[str, VariableName] = field(default_factory=dict)  # what optional parts depend on
    unknown: list[UnknownOperator] = field(default_factory=list)
    constants: dict[PartPath, Mapping[str, Any]] = field(default_factory=dict)  # stages
    open_stages: dict[PartPath, Mapping[str, Any]] = field(
        default_factory=dict
    )  # with placeholders

    def see_operator(self, name: str, kind: OperatorKind, where: PartPath) -> None:
        """Record an operator that docgraph does not know; the database may know it."""
        if is_known(name, kind) or len(self.unknown) > MAX_UNKNOWN:
            return
        if len(self.unknown) == MAX_UNKNOWN:
            self.flaw(where, f"more than {MAX_UNKNOWN} operators are not known")
        ours = self.vocabulary.operators
        self.unknown.append(UnknownOperator(render_place(where), name, kind, ours))

    def list_parts(self) -> Iterator[StagePart]:
        """Return every stage; a pipeline of `$lookup` may use variables around it."""
        for where, stage in self.constants.items():
            is_inner = any(where[:end] in self.constants for end in range(len(where)))
            is_alone = not is_inner and "$lookup" not in where[:-1]
            yield StagePart(render_place(where), stage, is_alone)
        for where, stage in self.open_stages.items():
            if where not in self.constants:
                yield StagePart(render_place(where), stage, is_alone=False)

    def flaw(self, where: PartPath, what: str, hint: str | None = None) -> Render:
        """Record a mistake and continue, so that all of them are found."""
        self.flaws.append(Flaw(render_place(where), what, hint))
        return ConstantTemplate(None)

    def build(self, value: Any, where: PartPath, position: Position) -> Render:
        """Compile one part to a closure."""
        if len(where) > MAX_DEPTH:
            return self.flaw(where[:3], f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, Mapping):
            used = self.vocabulary.operators & value.keys()
            if used:
                return self._operator(used, value, where, position)
        return position.literal(TemplatePart(self, value, where, position))

    def reference(
        self, name: Any, where: PartPath, *, is_required: bool = False
    ) -> VariableName | None:
        """Record a name of an argument or variable; None with a flaw if it is not a name."""
        if not isinstance(name, str):
            self.flaw(where, f"the name must be a string, not {describe(name)}")
            return None
        try:
            reference = parse_reference(name)
        except ValueError as error:
            self.flaw(where, str(error))
            return None
        self.uses.append(Placeholder(where, reference, is_required))
        if reference.source is ValueOrigin.ROOT:
            self.root_paths.add(render_path(reference.path))
        return reference

    def _operator(
        self, used: frozenset[str], value: Mapping[str, Any], where: PartPath, position: Position
    ) -> Render:
        operator = sorted(used)[0]
        place = (*where, operator)
        is_optional = operator == self.vocabulary.optional
        if is_optional and position.optional is None:
            return self.flaw(
                place,
                "is allowed only in a list of stages, as a whole filter or as a member of $and",
            )
        if len(value) != 1:
            return self.flaw(place, f"{operator} must be the only key of its object")
        if is_optional and position.optional is not None:
            return position.optional(TemplatePart(self, value[operator], place, position))
        if position.closed:
            return self.flaw(place, position.closed)
        if operator == self.vocabulary.argument:
            return self._argument(value[operator], place, position)
        return self._foreign_key(value[operator], place, position)

    def _argument(self, shape: Any, where: PartPath, position: Position) -> Render:
        default: Render | None = None
        name = shape
        if isinstance(shape, list):
            if len(shape) != 2:  # noqa: PLR2004 - a name and a default
                return self.flaw(where, "must be a name or [name, default]")
            name = shape[0]
            default = ConstantTemplate(position.absent)
            if shape[1] is not None:
                default = self.build(shape[1], (*where, 1), position)
        reference = self.reference(name, where, is_required=default is None)
        if reference is None:
            return ConstantTemplate(None)
        adapt = position.adapt
        if reference.source is not ValueOrigin.ARGUMENT:
            adapt = position.adapt_stored or adapt

        def render(scope: Scope) -> Any:
            value = scope.lookup(reference)
            if value is not UNBOUND:
                return adapt(value)
            if default is None:
                raise NotBound(reference.name)
            return default(scope)

        return render

    def _foreign_key(self, shape: Any, where: PartPath, position: Position) -> Render:
        if not isinstance(shape, str):
            return self.flaw(where, f"must be the path of a field, not {describe(shape)}")
        try:
            path = parse_path(shape)
        except ValueError as error:
            return self.flaw(where, str(error))
        self.uses.append(Placeholder(where, None))
        self.foreign_keys.add(render_path(path))
        get = compile_field(path)
        adapt = position.adapt_key or position.adapt_stored or position.adapt
        absent, is_relation = position.absent, self.is_relation

        def render(scope: Scope) -> Any:
            value = get(scope.parent)
            if value is not None:
                return adapt(value)
            if is_relation:
                raise MissingKey
            return absent

        return render


def describe(value: Any) -> str:
    """Return the kind of a JSON value, for messages."""
    if value is None:
        return "null"
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "a boolean"),
        ((int, float), "a number"),
        (str, "a string"),
        (list, "an array"),
        (Mapping, "an object"),
    )
    name = type(value).__name__
    return next(
        (text for kind, text in kinds if isinstance(value, kind)), f"a value of type {name}"
    )


def unless_constant(source: Any, parts: Iterable[Render], render: Render) -> Render:
    """Return the closure, or the source itself if all parts in it are constants."""
    is_constant = all(isinstance(part, ConstantTemplate) for part in parts)
    return ConstantTemplate(source) if is_constant else render


def combine_document(source: Any, parts: Mapping[str, Render]) -> Render:
    """Return a document of rendered parts; NOTHING in one of them makes it NOTHING."""
    items = tuple(parts.items())

    def render(scope: Scope) -> Any:
        document = {}
        for key, part in items:
            value = part(scope)
            if value is NOTHING:
                return NOTHING
            document[key] = value
        return document

    return unless_constant(source, parts.values(), render)


def combine_list(source: Any, parts: list[Render]) -> Render:
    """Return a list of rendered parts; NOTHING in one of them makes it NOTHING."""

    def render(scope: Scope) -> Any:
        values = [part(scope) for part in parts]
        return NOTHING if any(value is NOTHING for value in values) else values

    return unless_constant(source, parts, render)


def build_optional(
    part: TemplatePart, noun: str, build: Callable[[int, Any], Render], empty: type
) -> Render:
    """Return the closure of an optional part; `empty` creates the value of an omitted part.

    `$ifarg`, in pipelines and in filters, is `[<name> | [<names>], <part>, <else>?]`: the part if
    all names have a value, otherwise the other one (decision 9). An explicit null is a value.
    """
    value = part.value
    if not isinstance(value, list) or len(value) not in (2, 3):
        return part.flaw(f"must be [name or names, {noun}] or [names, {noun}, else]")
    names, place = _list_names(value), (*part.where, 0)
    if not names:
        return part.at(0, names).flaw("must name one argument or more")
    named = [part.compilation.reference(name, place) for name in names]
    references: list[VariableName] = [reference for reference in named if reference is not None]
    part.compilation.options.update({reference.name: reference for reference in references})
    branches = [build(step, value[step]) for step in range(1, len(value))]

    def render(scope: Scope) -> Any:
        if all(scope.is_bound(reference) for reference in references):
            return branches[0](scope)
        return branches[1](scope) if len(branches) > 1 else empty()

    return render


def decide(source: Any, optional: str, is_given: Callable[[str], bool]) -> Any:
    """Return the source of a filter after deciding the optional conditions that must all hold."""
    if not isinstance(source, Mapping):
        return source
    if optional in source:
        value = source[optional]
        chosen = 1 if all(map(is_given, _list_names(value))) else 2
        branch = value[chosen] if chosen < len(value) else {}
        branch = {"$and": branch} if isinstance(branch, list) else branch
        return decide(branch, optional, is_given)
    members = source.get("$and")
    if not isinstance(members, list):
        return source
    kept = [part for item in members if (part := decide(item, optional, is_given))]
    others = {key: value for key, value in source.items() if key != "$and"}
    return {**others, "$and": kept} if kept else others


def _list_names(value: list[Any]) -> list[Any]:
    names = value[0]
    return names if isinstance(names, list) else [names]
