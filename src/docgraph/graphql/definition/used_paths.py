"""Used paths: the properties that a mapping compares or orders by, and the arguments it needs.

Stages may rename properties and copy whole documents. Each stage is read with the origins of what
the stages before it return.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docgraph.graphql.definition.group_visibility import KEEPING_DOCUMENTS, name_results
from docgraph.graphql.definition.mapping import GroupMapping, QueryMapping
from docgraph.graphql.definition.origins import (
    NO_ORIGIN,
    Shape,
    StageVariables,
    enter_path,
    flatten_shape,
    merge_shapes,
    put_part,
    set_document,
    shape_documents,
)
from docgraph.graphql.definition.used_values import (
    TEXT,
    UsedPath,
    ValueReader,
    find_arguments,
    read_branches,
)
from docgraph.graphql.definition.visibility import Coordinates
from docgraph.store.guard.references import find_reference, nested_pipelines
from docgraph.store.names import namespace_of, walk

_COPYING: Final = frozenset({"$project", "$set", "$addFields"})
_JOINS: Final = frozenset({"$lookup", "$graphLookup"})
_SEARCHES: Final = frozenset({"$search", "$searchMeta", "$vectorSearch"})
_GROUPS: Final = frozenset({"$group", "$bucket", "$bucketAuto", "$sortByCount"})
_OPTIONS: Final = frozenset({"window", "method"})
_KEYS: Final = frozenset({"_id", "groupBy", "partitionBy"})


def read_used_paths(place: Coordinates, mapping: Any) -> tuple[list[UsedPath], Shape]:
    """Return the properties that a field uses, those of its parents too.

    Also return the shape of its documents, unless they are groups.
    """
    namespace = namespace_of(mapping.db, mapping.collection)
    documents = results = shape_documents(namespace)
    if isinstance(mapping, QueryMapping | GroupMapping):
        reader: ValueReader = ValueReader("find")
        reader.read_filter(mapping.find.source, set_document(documents))
        reader.key, ordered = "sort", documents
        if isinstance(mapping, GroupMapping):  # keys follow their fields, totals are fixed
            results = NO_ORIGIN
            totals = {n: one for n, one in mapping.results.items() if one.operator != "by"}
            paths = {n: one.path for n, one in totals.items() if one.path}
            ordered = {n: frozenset({(namespace, path)}) for n, path in paths.items()}
        reader.read_sort({} if mapping.sort is None else mapping.sort.source, ordered)
    else:
        stages = reader = StageReader(mapping.db, name_results(place, mapping))
        results = stages.read_stages(mapping.stages.source, set_document(documents))
    uses = [*reader.uses]
    for template in mapping.templates:
        # Of the parent, whose namespace is its type, and of documents that `Query` returns.
        others = [(place[0], path) for path in template.foreign_keys]
        others += [("Query", path) for path in template.root_paths]
        for type_name, path in others:
            ((_, name),) = enter_path(shape_documents(type_name), path)[""]
            uses.append(UsedPath(template.context.replace("filter", "find"), type_name, name))
    return uses, results


class StageReader(ValueReader):
    """Reads pipelines; `results` names the documents after a stage that returns others."""

    def __init__(self, db: str, results: str) -> None:
        super().__init__("")
        self._db = db
        self._results = results

    def read_stages(self, stages: Any, variables: StageVariables, key: str = "") -> Shape:
        """Note the properties that stages read; return the shape of what they return."""
        for number, stage in enumerate(stages if isinstance(stages, list) else [stages]):
            if not isinstance(stage, Mapping) or len(stage) != 1:
                continue
            ((name, body),) = stage.items()
            self.key = key or f"stages[{number}]"
            if name == "$ifarg":
                shapes = [variables["ROOT"]]
                for given, branch in read_branches(body):
                    with self.giving(given):
                        shapes.append(self.read_stages(branch, variables, self.key))
                root = merge_shapes(*shapes)
            else:
                root = self._read_stage(name, body, variables)
            variables = set_document(root, variables)
        return variables["ROOT"]

    def _read_stage(self, name: str, body: Any, variables: StageVariables) -> Shape:
        """Note the properties that a stage reads; return the shape of what it returns."""
        root, named = variables["ROOT"], _as_object(body)
        if name == "$match":
            self.read_filter(body, variables)
        elif name == "$sort":
            self.read_sort(body, root)
        elif name == "$unwind":
            self.read_expression(named.get("path", body), variables, is_shallow=True)
        elif name in ("$facet", "$unionWith", *_JOINS):
            root = self._read_more(name, body, variables)
        else:
            with self.giving(find_arguments(body)):
                root = self._read_computing(name, body, variables)
        if name in KEEPING_DOCUMENTS:
            return root
        return merge_shapes(shape_documents(self._results), root)

    def _read_more(self, name: str, body: Any, variables: StageVariables) -> Shape:
        """Read a stage with pipelines of its own, or documents of another collection."""
        if name == "$facet":
            root = NO_ORIGIN
            for facet, nested in nested_pipelines(name, body):
                root = put_part(root, facet, self._read_nested(nested, variables, self._db))
            return root
        reference, named = find_reference(name, body, self._db), _as_object(body)
        other = NO_ORIGIN if reference is None else shape_documents(namespace_of(*reference.place))
        inner = set_document(other, variables)
        if name in _JOINS:
            with self.giving(find_arguments({**named, "pipeline": None})):
                inner = {**inner, **self._read_join(named, variables, other)}
        for _, nested in nested_pipelines(name, body):
            other = self._read_nested(nested, inner, reference.db if reference else self._db)
        if name == "$unionWith":
            return merge_shapes(variables["ROOT"], other)
        return put_part(variables["ROOT"], str(named.get("as")), other)

    def _read_nested(self, stages: Any, variables: StageVariables, db: str) -> Shape:
        before = self._db, self._results
        self._db, self._results = db, f"{self._results}/{self.key}"
        shape = self.read_stages(stages, variables, self.key)
        self._db, self._results = before
        return shape

    def _read_join(
        self, body: Mapping[str, Any], variables: StageVariables, other: Shape
    ) -> StageVariables:
        """Note what `$lookup` and `$graphLookup` compare; return the variables of the first."""
        if isinstance(local := body.get("localField"), str):
            self.record_all(enter_path(variables["ROOT"], local))
        self.record_documents(self.read_expression(body.get("startWith"), variables))
        for key in ("foreignField", "connectFromField", "connectToField"):
            if isinstance(path := body.get(key), str):
                self.record_all(enter_path(other, path))
        self.read_filter(body.get("restrictSearchWithMatch"), set_document(other))
        return self.read_variables(body.get("let"), variables)

    def _read_computing(self, name: str, body: Any, variables: StageVariables) -> Shape:
        root, named = variables["ROOT"], _as_object(body)
        if name in _COPYING:
            fields = {key: one for key, one in named.items() if one != f"${key}"}
            return self._put_fields(root, fields, variables)
        if name in _GROUPS:
            fields = {"_id": body, **named} if name == "$sortByCount" else dict(named)
            outputs = _as_object(fields.pop("output", None))
            return self._put_fields(NO_ORIGIN, {**fields, **outputs}, variables)
        if name in ("$setWindowFields", "$fill", "$densify"):
            return self._read_windows(named, variables)
        if name in _SEARCHES or name == "$geoNear":
            self._read_search(name, named, variables)
            return root
        value = self.read_expression(body, variables)
        if name == "$redact" and "$$DESCEND" in walk(body):  # each path is read at every level
            self.record_documents(root)
        if name == "$replaceRoot":
            return enter_path(value, "newRoot")
        return root if name in KEEPING_DOCUMENTS else value

    def _put_fields(
        self, root: Shape, fields: Mapping[str, Any], variables: StageVariables
    ) -> Shape:
        """Return the shape of documents with these computed fields."""
        for key, value in fields.items():
            if isinstance(value, int | float):
                continue  # a constant, or a property that is only included or left out
            shape = self.read_expression(value, variables)
            if key in _KEYS:
                self.record_documents(shape)
            changed = put_part(root, "_id" if key == "groupBy" else key, shape)
            is_merged = isinstance(value, Mapping) and not any(name[:1] == "$" for name in value)
            root = merge_shapes(root, changed) if is_merged else changed
        return root

    def _read_windows(self, named: Mapping[str, Any], variables: StageVariables) -> Shape:
        """Read `$setWindowFields`, `$fill` or `$densify`; the last two name properties, too."""
        root = variables["ROOT"]
        for name in walk([named.get("field"), named.get("partitionByFields")]):
            if isinstance(name, str):
                self.record_all(enter_path(root, name))
        self.record_documents(self.read_expression(named.get("partitionBy"), variables))
        if "sortBy" in named:
            self.read_sort(named["sortBy"], root)
        outputs = {}
        for key, output in _as_object(named.get("output")).items():
            parts = {n: one for n, one in _as_object(output).items() if n not in _OPTIONS}
            outputs[key] = parts.get("value", parts)
        return merge_shapes(root, self._put_fields(root, outputs, variables))

    def _read_search(self, name: str, body: Mapping[str, Any], variables: StageVariables) -> None:
        """Read a search by an index, which may contain any property."""
        root, key = variables["ROOT"], body.get("key")
        if name == "$geoNear":
            self.read_filter(body.get("query"), variables)
            self.read_expression(body.get("near"), variables)
            self.record_all(enter_path(root, key) if isinstance(key, str) else flatten_shape(root))
            return
        self.record([("", TEXT)])
        self.read_filter(body.get("filter"), variables)
        self.read_sort(body.get("sort", {}), root)
        for part in walk(body):
            if not isinstance(part, Mapping):
                continue
            paths = [one for one in walk(part.get("path")) if isinstance(one, str)]
            for path in paths:
                self.record_all(enter_path(root, path))
            if "queryString" in part or isinstance(part.get("wildcard"), str):
                self.record_documents(root)  # they name properties in a language of their own


def _as_object(value: Any) -> Mapping[str, Any]:
    """Return the value, or an empty object for what MongoDB will reject."""
    return value if isinstance(value, Mapping) else {}
