"""Object types from sampled shapes: fields, nested objects, enums, omitted properties."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from docgraph.tools.apps import SCALARS
from docgraph.tools.data import FieldPath
from docgraph_workbench.infer.field_names import (
    NamePool,
    is_name,
    pascal,
    safe_name,
    singular,
    split_words,
)
from docgraph_workbench.infer.model import EnumType, Field, Model, ObjectType, ScalarProperty
from docgraph_workbench.infer.profile import (
    NUMBERS,
    Seen,
    Shape,
    choose_scalar,
    find_enum_values,
    find_shown,
    has_few_texts,
)
from docgraph_workbench.infer.sensitive_names import find_reason, is_about_people, is_personal

RESERVED_TYPES: Final = frozenset(
    "Query Mutation Subscription String Int Float Boolean ID SortOrder".split()
).union(SCALARS)
_MAP_FIELDS: Final = 20
_MAP_PRESENCE: Final = 0.3
_MAP_KEY: Final = re.compile(r"[0-9][0-9_:.-]*|[0-9a-fA-F-]{16,}")
_MAP_KEYS: Final = 2
_WIDEN: Final = (
    "all values of the data; another one is null with an error: add it here, or declare a String"
)
_DOMINANT: Final = 0.95  # share of one kind above which others are exceptions
_REPEATED: Final = 3  # occurrences of a value before it becomes an example
_LONGEST_EXAMPLE: Final = 40
_PLAIN_STEP: Final = re.compile(r"[^.\[\]'\"\s$]+")
_FORMS: Final = frozenset({"array", "object"})
_PRIVATE_TEXT: Final = re.compile(r"@|://|[0-9]{7}|[0-9a-fA-F]{16}")
_NOT_COMPARED: Final = "Binary"  # no scalar: binary data is not searched by value
_MAP_CERTAIN: Final = 400  # fields of one object that no person has named


@dataclass(slots=True)
class _Typed:
    """A type as SDL, and what is uncertain about it; `base` without brackets."""

    base: str
    text: str
    remarks: list[str] = field(default_factory=list)
    is_leaf: bool = True
    has_misfits: bool = False  # some values are null in results


@dataclass(slots=True)
class TypeBuilder:
    """Builds the types of one collection.

    `references` are the paths of relations, `open_ended` those with more strings than were sampled:
    those are no enums. `owners` collects which type has the objects at a path, `leaves` the
    scalars, `names` the field of each path.
    """

    model: Model
    type_names: NamePool
    references: Collection[FieldPath] = ()
    open_ended: Collection[FieldPath] = ()
    nested: Mapping[tuple[str, str], str] = field(default_factory=dict)  # existing names
    required: Collection[str] = ()
    collection: str = ""
    owners: dict[FieldPath, ObjectType] = field(default_factory=dict)
    leaves: list[ScalarProperty] = field(default_factory=list)
    names: dict[FieldPath, str] = field(default_factory=dict)
    shapes: dict[FieldPath, Shape] = field(default_factory=dict)
    pools: dict[str, NamePool] = field(default_factory=dict)

    def build(self, name: str, shape: Shape, path: FieldPath = (), *, list_depth: int = 0) -> None:
        """Add the type for objects of this shape, and those nested in it."""
        type_ = self.model.types[name] = self.owners[path] = ObjectType(name)
        self.shapes[path] = shape
        pool = self.pools[name] = NamePool()
        for key in sorted(shape.fields, key=lambda key: not is_name(key)):  # valid names come first
            if key == "_id" and "id" not in shape.fields:
                self.names[(*path, key)] = pool.claim("id")
            elif is_name(key):
                self.names[(*path, key)] = pool.claim(key)
        for key, seen in shape.fields.items():
            self._add_field(type_, pool, (*path, key), seen, shape, list_depth)
        if shape.omitted:
            type_.remarks.append("there are more fields than these: the others were left out")
            self.model.notes.append(f"{name}: has more fields than are looked at; some are missing")

    def _add_field(
        self,
        type_: ObjectType,
        pool: NamePool,
        path: FieldPath,
        seen: Seen,
        shape: Shape,
        list_depth: int,
    ) -> None:
        key = path[-1]
        step = _write_step(key)
        reason = _find_reason(path, seen, step, self.collection)
        if not reason and path not in self.references and seen.holds_secrets(key, self.collection):
            reason = "its values look like secrets"
        typed = None if reason else self._type(type_.name, path, seen, list_depth)
        if typed is None or step is None:
            label = key if is_name(key) else safe_name(key)
            type_.left_out.append((label, reason or _explain_missing(path, seen, self.collection)))
            return
        name = self.names.get(path) or pool.claim(safe_name(key))
        self.names[path] = name
        if safe_name(key) != key:
            self.model.notes.append(f"{type_.name}.{name}: the property is called {key!r}")
        is_required = key in self.required or key == "_id"
        is_always = seen.filled == shape.count
        is_certain = is_required and is_always and not typed.has_misfits
        text = typed.text + ("!" if len(path) == 1 and is_certain else "")
        built = Field(name, text, None if name == key else step, remarks=typed.remarks)
        if path not in self.references and typed.base not in self.model.enums:
            is_open = not is_about_people(self.collection)
            built.description = _describe(path, seen, typed) if is_open else ""
        if not is_always:
            built.aside = f"in {_percent(seen.filled, shape.count)} of the documents"
        type_.add(built)

    def _type(self, owner: str, path: FieldPath, seen: Seen, list_depth: int) -> _Typed | None:
        """Return the type of the values, by their most frequent form; None if there is none."""
        forms = _find_forms(seen)
        form = max(forms, key=lambda candidate: forms[candidate])
        typed = self._type_form(form, owner, path, seen, list_depth)
        if "array" in forms:
            self._record_array(path, is_mixed=len(forms) > 1)
        if typed is not None and len(forms) > 1:
            others = sum(forms.values()) - forms[form]
            share = _percent(others, sum(forms.values()))
            typed.remarks.append(f"{share} of the values have another form: null, with an error")
            typed.has_misfits = True
        return typed

    def _record_array(self, path: FieldPath, *, is_mixed: bool) -> None:
        """Record for all scalars at or below the path that there are arrays."""
        size = len(path)
        self.leaves = [
            replace(leaf, arrays=((size, is_mixed), *leaf.arrays))
            if leaf.path[:size] == path
            else leaf
            for leaf in self.leaves
        ]

    def _type_form(
        self, form: str, owner: str, path: FieldPath, seen: Seen, list_depth: int
    ) -> _Typed | None:
        if form == "array":
            if seen.elements is None or not seen.elements.kinds:
                return None
            inner = self._type(owner, path, seen.elements, len(path))
            if inner is None:
                return None
            if "array" in seen.elements.kinds:  # no filter reaches into it
                self.leaves = [leaf for leaf in self.leaves if leaf.path[: len(path)] != path]
            elif self.leaves and self.leaves[-1].path == path:
                self.leaves[-1] = replace(self.leaves[-1], is_list=True)
            return _Typed(inner.base, f"[{inner.text}]", inner.remarks, inner.is_leaf)
        if form == "object":
            return self._type_object(owner, path, seen, list_depth)
        return self._type_scalar(owner, path, seen, list_depth)

    def _type_object(
        self, owner: str, path: FieldPath, seen: Seen, list_depth: int
    ) -> _Typed | None:
        shape = seen.shape
        if shape is None:
            return _document("nested too deep to be looked at")
        if not any(not inner.is_empty for inner in shape.fields.values()):
            return _document("nothing is known of what is in it")
        if _is_map(shape):
            is_safe = not _has_secrets(path, shape, self.collection)
            return _document("its keys are data, so it is shown as it is") if is_safe else None
        if (same := self._find_same(path, shape)) is not None:
            return _Typed(same, same, is_leaf=False)
        words = split_words(path[-1]) or ["part"]
        if list_depth:
            words = [*words[:-1], singular(words[-1])]
        name = self._claim(owner, path, owner + pascal(words), f"{owner}{pascal(words)}Part")
        self.build(name, shape, path, list_depth=list_depth)
        if not self.model.types[name].fields:
            del self.model.types[name]
            is_safe = not _has_secrets(path, shape, self.collection)
            return _document("nothing in it has a type of its own") if is_safe else None
        return _Typed(name, name, is_leaf=False)

    def _find_same(self, path: FieldPath, shape: Shape) -> str | None:
        """Return the enclosing type that has the same shape: replies to replies are replies."""
        for end in range(len(path) - 1, 0, -1):
            outer = self.shapes.get(path[:end])
            if outer is not None and path[end - 1] == path[-1] and _is_within(shape, outer):
                return self.owners[path[:end]].name
        return None

    def _type_scalar(
        self, owner: str, path: FieldPath, seen: Seen, list_depth: int
    ) -> _Typed | None:
        counts = {kind: seen.kinds[kind] for kind in seen.kinds if kind not in _FORMS}
        shown = find_shown(counts)
        if not shown:
            return None
        is_id = path == ("_id",)  # every one of them is shown, and asked for as it is shown
        kinds = shown if is_id else _without_exceptions({kind: counts[kind] for kind in shown})
        scalar = choose_scalar(kinds)
        if scalar is None:
            return None
        typed = _Typed(scalar, scalar)
        is_open = path in self.references or path in self.open_ended
        is_declared = (owner, path[-1]) in self.nested
        is_list = list_depth > 0
        values = find_enum_values(path[-1], seen, repeated=is_list, is_declared=is_declared)
        if values is not None and not is_open:
            typed = self._type_enum(owner, path, values)
        elif len(kinds) > 1 and (scalar == "ID" or not kinds <= NUMBERS):
            typed.remarks.append(f"mixed: {', '.join(sorted(kinds))}")
        elif kinds == {"binary"}:
            typed.remarks.append("binary data, shown as base64")
        elif has_few_texts(seen) and not (is_open or is_list):
            count = len(seen.values)
            typed.remarks.append(f"only {count} texts: an enum, if there will be no others")
        if len(kinds) < len(counts):
            others = ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts.keys() - kinds))
            typed.remarks.append(f"not all are {typed.base} ({others}): null, with an error")
            typed.has_misfits = True
        if seen.dates and seen.dates == seen.kinds["string"]:
            typed.remarks.append("texts that look like dates")
        statistics = (len(seen.values), seen.filled, seen.overflowed, seen.is_prose)
        compared = typed.base
        if typed.base == "ID" and not is_id:
            compared = _NOT_COMPARED if "binary" in kinds else compared
            compared = "Float" if _is_number(counts) else compared
        self.leaves.append(ScalarProperty(path, compared, False, list_depth > 0, *statistics))
        return typed

    def _claim(self, owner: str, path: FieldPath, *wishes: str) -> str:
        """Return a name for a type, preferably the one it already has."""
        existing_name = self.nested.get((owner, path[-1]))
        return self.type_names.claim(*([existing_name] if existing_name else []), *wishes)

    def _type_enum(self, owner: str, path: FieldPath, values: dict[str, str]) -> _Typed:
        wish = owner + pascal(split_words(path[-1]) or ["kind"])
        name = self._claim(owner, path, wish, f"{wish}Kind")
        self.model.enums[name] = EnumType(name, dict(values), remarks=(_WIDEN,))
        return _Typed(name, name)


def _is_within(shape: Shape, outer: Shape) -> bool:
    """Return whether objects of the one shape are objects of the other."""
    for name, seen in shape.fields.items():
        other = outer.fields.get(name)
        if other is None or not seen.kinds.keys() <= other.kinds.keys():
            return False
    return True


def _without_exceptions(counts: Mapping[str, int]) -> set[str]:
    """Return the kinds of nearly all values; all numbers count as one kind."""
    total = sum(counts.values())
    numbers = {kind for kind in counts if kind in NUMBERS}
    groups = [numbers, *({kind} for kind in counts if kind not in NUMBERS)]
    largest = max(groups, key=lambda group: sum(counts[kind] for kind in group))
    share = sum(counts[kind] for kind in largest) / total
    return largest if share >= _DOMINANT and share < 1 else set(counts)


def _is_number(counts: Mapping[str, int]) -> bool:
    """Return whether most values are numbers, so that they can be compared."""
    numbers = sum(count for kind, count in counts.items() if kind in NUMBERS)
    return numbers * 2 > sum(counts.values())


def _document(remark: str) -> _Typed:
    return _Typed("BsonDocument", "BsonDocument", [remark], is_leaf=False)


def _find_forms(seen: Seen) -> dict[str, int]:
    """Return how often the property is a list, an object, a scalar."""
    forms: dict[str, int] = {}
    for kind, count in seen.kinds.items():
        form = kind if kind in _FORMS else "scalar"
        forms[form] = forms.get(form, 0) + count
    return forms


def _find_reason(path: FieldPath, seen: Seen, step: str | None, collection: str) -> str | None:
    """Return why a property cannot become a field; None if it can."""
    if step is None:
        return "a mapping cannot name it"
    if seen.is_empty:
        return "it is always null or empty in the sample"
    return _find_secret(path, seen, collection) or None


def _find_secret(path: FieldPath, seen: Seen, collection: str) -> str:
    kinds = set(seen.kinds) | (set(seen.elements.kinds) if seen.elements else set())
    is_number = kinds <= {*NUMBERS, "bool", "date", "array"}
    return find_reason(" ".join(path[-2:]), collection, is_number=is_number)


def _has_secrets(path: FieldPath, shape: Shape, collection: str) -> bool:
    """Return whether objects that are shown as they are would show secrets."""
    return any(
        _find_secret(inner, seen, collection) or seen.holds_secrets(inner[-1], collection)
        for inner, seen in shape.walk(path)
    )


def _explain_missing(path: FieldPath, seen: Seen, collection: str) -> str:
    inner = seen.shape or (seen.elements.shape if seen.elements else None)
    if inner is not None and _has_secrets(path, inner, collection):
        return "it holds secrets"
    return "its values have no type of GraphQL"


def _write_step(key: str) -> str | None:
    """Return the property as a mapping names it; None if that is not possible."""
    if not key or key.startswith("$") or "\0" in key:
        return None
    if _PLAIN_STEP.fullmatch(key) or ("." not in key and "[" not in key):
        return key
    quote = next((mark for mark in "'\"" if mark not in key), None)
    return None if quote is None else f"[{quote}{key}{quote}]"


def _is_map(shape: Shape) -> bool:
    """Return whether the keys of the objects are data (days, ids), not names of fields."""
    names = list(shape.fields)
    odd = sum(1 for name in names if _MAP_KEY.fullmatch(name))
    if len(names) >= _MAP_KEYS and odd * 10 >= len(names) * 8:
        return True
    if shape.omitted or len(names) >= _MAP_CERTAIN:
        return True
    presence = sum(seen.count for seen in shape.fields.values()) / (len(names) * shape.count)
    kinds = {frozenset(seen.kinds) for seen in shape.fields.values() if seen.kinds}
    return len(names) >= _MAP_FIELDS and presence < _MAP_PRESENCE and len(kinds) == 1


def _describe(path: FieldPath, seen: Seen, typed: _Typed) -> str:
    """Return an example from the data, unless it could be personal."""
    if not typed.is_leaf or any(map(is_personal, path)) or path == ("_id",):
        return ""
    example = next(_find_examples(seen), None)
    return "" if example is None else f"For example {example}"


def _find_examples(seen: Seen) -> Iterator[str]:
    leaf = seen.elements if seen.elements is not None and "array" in seen.kinds else seen
    if leaf.overflowed or len(leaf.values) * 2 > leaf.filled:
        return  # hardly a value repeats: one could identify its document
    ordered = sorted(leaf.values.items(), key=lambda item: (-item[1], str(item[0])))
    for value, count in ordered:
        if count < _REPEATED:
            return
        if isinstance(value, str):
            is_short = value.isprintable() and 0 < len(value.strip()) <= _LONGEST_EXAMPLE
            if is_short and not _PRIVATE_TEXT.search(value):
                yield value
        elif isinstance(value, datetime):
            yield value.date().isoformat()
        elif isinstance(value, int) and not isinstance(value, bool):
            yield str(value)
        elif isinstance(value, float):
            yield f"{value:.4g}"


def _percent(part: int, whole: int) -> str:
    share = part * 100 / max(1, whole)
    if 0 < share < 1:
        return "less than 1 %"
    return f"{min(99, round(share)) if part < whole else 100} %"
