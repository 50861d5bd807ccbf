"""Mappings of object types to fields, queries and aggregations: validation and compilation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from graphql import GraphQLField, GraphQLObjectType

from docgraph.config.nearest import find_nearest
from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.graphql.definition.check_effects import warn_text_only, warn_unused, warn_useless
from docgraph.graphql.definition.connection_types import read_connection
from docgraph.graphql.definition.findings import Findings, Namespace, Ordering, join_place
from docgraph.graphql.definition.groups import build_count, build_group
from docgraph.graphql.definition.mapping import (
    AggregationMapping,
    AnyMapping,
    DataLoader,
    FieldMapping,
    GroupMapping,
    QueryMapping,
)
from docgraph.graphql.federation.subgraph import is_own_field
from docgraph.store.guard.references import find_references
from docgraph.store.guard.stage_checks import Policy, check_filter, check_pipeline
from docgraph.store.names import check_collection, check_database, check_namespace, check_reserved
from docgraph.store.order import pinned_paths
from docgraph.variables import (
    BUILT_IN,
    GRAPHQL,
    Template,
    TemplateContext,
    ValueOrigin,
    VariableName,
    flatten_stages,
    inspect_template,
    parse_field_path,
)
from docgraph.variables.compilation import describe

_QUERY_KEYS = (
    *("db", "collection", "find", "sort", "skip", "limit", "filter", "orderBy", "dataLoader"),
    "connection",
)
_AGGREGATION_KEYS = ("db", "collection", "stages", "allowDiskUse", "dataLoader")
_COUNT_KEYS = ("db", "collection", "find", "count", "dataLoader")
_GROUP_KEYS = (
    *("db", "collection", "find", "group", "sort", "skip", "limit", "allowDiskUse", "dataLoader"),
)
_KINDS = ("stages", "count", "group")
_LOADER_KEYS = ("batching", "caching", "maxBatchSize")


FaultyPlace = tuple[str, ...]
"""A type, or a type and one of its fields, whose definition is invalid."""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The settings that a definition is checked against."""

    max_limit: int
    policy: Policy
    variables: Collection[str] = BUILT_IN
    json_mode: str = "standard"  # of apps that do not set one
    faults: frozenset[FaultyPlace] = frozenset()  # left out: types and fields without mappings


def check_object_type(
    type_: GraphQLObjectType, mappings: Mapping[str, Any], rules: CheckContext, findings: Findings
) -> dict[str, AnyMapping]:
    """Return the mapping of every field; by default a field reads the property of its name.

    Fields of Query have no default.
    """
    where = f"mappings.{type_.name}"
    for name in mappings:
        if name not in type_.fields:
            what = f"the type {type_.name} has no such field"
            findings.warn_unknown(f"{where}.{name}", what, name, type_.fields)
    found: dict[str, AnyMapping] = {}
    for name, field in type_.fields.items():
        if (type_.name, name) in rules.faults:
            continue
        value = mappings.get(name)
        mapping = None
        if value is not None:
            checker = _FieldChecker(f"{where}.{name}", rules, findings, type_.name == "Query")
            mapping = checker.check(value, field)
            if mapping is not None:
                warn_useless(checker.where, mapping, field, findings)
                warn_unused(checker.where, type_, name, mapping, findings)
        elif type_.name == "Query" and not is_own_field(name, field.ast_node):
            findings.warn(f"{where}.{name}", "has no mapping and is always null")
        if mapping is not None:
            found[name] = mapping
        elif type_.name != "Query":
            found[name] = FieldMapping((name,))
    return found


def check_one_field(where: str, value: Any, rules: CheckContext, findings: Findings) -> None:
    """Check the shape of a mapping whose type is unknown because the schema is invalid."""
    _FieldChecker(where, rules, findings, is_query=False).check(value, None)


def check_one_mapping(
    where: str, value: Any, rules: CheckContext, findings: Findings
) -> AnyMapping | None:
    """Return a mapping that belongs to no field; None with an error."""
    return _FieldChecker(where, rules, findings, is_query=False).check(value, None)


@dataclass(frozen=True, slots=True)
class _FieldChecker:
    """Checks and compiles the mapping of one field."""

    where: str
    rules: CheckContext
    findings: Findings
    is_query: bool

    def check(self, value: Any, field: GraphQLField | None) -> AnyMapping | None:
        if isinstance(value, str):
            return self._check_path(value)
        if not isinstance(value, dict):
            self._error("", f"must be a string or an object, not {describe(value)}")
            return None
        before = len(self.findings.errors)
        self._check_namespace(value)
        mapping = self._build(value, field)
        self._check_uses(mapping, field)
        return mapping if len(self.findings.errors) == before else None

    def _build(
        self, value: Mapping[str, Any], field: GraphQLField | None
    ) -> QueryMapping | AggregationMapping:
        kinds = [kind for kind in _KINDS if kind in value]
        if len(kinds) > 1:
            self._error(kinds[1], f"cannot be next to {kinds[0]}", "keep one of them")
        if not kinds:
            return self._query(value)
        return self._aggregation(value) if kinds[0] == "stages" else self._group(value, field)

    def _error(self, key: str, what: str, hint: str | None = None) -> None:
        self.findings.error(join_place(self.where, key), what, hint)

    def _check_path(self, text: str) -> FieldMapping | None:
        try:
            path = parse_field_path(text)
        except ValueError as error:
            self._error("", str(error))
            return None
        if self.is_query:
            self.findings.warn(
                self.where,
                "a field of Query has no document to read from and is always null",
                "map it to a query or an aggregation",
            )
            return None
        return FieldMapping(path)

    def _check_namespace(self, value: Mapping[str, Any]) -> None:
        before = len(self.findings.errors)
        for key, check in (("db", check_database), ("collection", check_collection)):
            name = value.get(key)
            if name is None:
                self._error(key, "is missing", _find_misspelling(key, value))
            elif not isinstance(name, str):
                self._error(key, f"must be a string, not {describe(name)}")
            else:
                self._check_name(key, check, name)
        if len(self.findings.errors) == before:
            db, collection = value["db"], value["collection"]
            self._check_name("collection", check_namespace, db, collection)
            self._check_name("collection", check_reserved, collection)
        if len(self.findings.errors) == before:
            self.findings.questions.append(Namespace(f"{self.where}.collection", db, collection))

    def _check_name(self, key: str, check: Callable[..., object], *names: str) -> None:
        try:
            check(*names)
        except (QueryError, SecurityViolation) as error:
            self._error(key, error.message)

    def _find(self, value: Mapping[str, Any]) -> Template:
        find = self._template(value, "find", "filter") or self._compile({}, "find", "filter")
        policy = self.rules.policy
        self._check_security(lambda: check_filter(value.get("find"), policy=policy, trusted=True))
        return find

    def _query(self, value: Mapping[str, Any]) -> QueryMapping:
        self._warn_unknown(value, _QUERY_KEYS)
        find = self._find(value)
        sort = self._template(value, "sort", "sort")
        self._check_order_index(value, sort)
        skip = self._number(value, "skip", None)
        limit = self._number(value, "limit", self.rules.max_limit)
        db, collection = str(value.get("db")), str(value.get("collection"))
        loader, pages = self._loader(value), read_connection(self.where, value, sort, self.findings)
        return QueryMapping(db, collection, find, sort, skip, limit, loader, connection=pages)

    def _check_order_index(self, value: Mapping[str, Any], sort: Template | None) -> None:
        db, collection = value.get("db"), value.get("collection")
        known = isinstance(db, str) and isinstance(collection, str)
        if known and sort is not None and sort.is_constant and sort.source:
            order = tuple(sort.source.items())
            pinned = frozenset(pinned_paths(value.get("find")))
            where = f"{self.where}.sort"
            is_paged = isinstance(value.get("connection"), dict)
            question = Ordering(where, str(db), str(collection), order, pinned, is_paged)
            self.findings.questions.append(question)

    def _aggregation(self, value: Mapping[str, Any]) -> AggregationMapping:
        self._warn_unknown(value, _AGGREGATION_KEYS)
        stages = self._compile(value["stages"], "stages", "stages")
        disk_use = self._disk_use(value)
        loader = self._loader(value)
        pipeline = flatten_stages(stages.source, GRAPHQL.optional)
        db = str(value.get("db"))
        self._check_security(
            lambda: check_pipeline(pipeline, db=db, policy=self.rules.policy, origin="stages"),
            "stages",
        )
        self._plan_joined(pipeline, db)
        return AggregationMapping(db, str(value.get("collection")), stages, disk_use, loader)

    def _group(self, value: Mapping[str, Any], field: GraphQLField | None) -> GroupMapping:
        is_count = "count" in value
        self._warn_unknown(value, _COUNT_KEYS if is_count else _GROUP_KEYS)
        find = self._find(value)
        build, key = (build_count, "count") if is_count else (build_group, "group")
        shape = build(value[key], field, self._error)
        source = [{"$match": find.source}, *shape.stages] if find.source else shape.stages
        self._check_result_sort(value.get("sort"), shape.results)
        db, policy = str(value.get("db")), self.rules.policy
        self._check_security(
            lambda: check_pipeline(shape.stages, db=db, policy=policy, origin=key), key
        )
        return GroupMapping(
            db,
            str(value.get("collection")),
            inspect_template(source, context="stages")[0],  # `find` has reported its flaws
            self._disk_use(value),
            self._loader(value),
            is_count,
            None if is_count else self._template(value, "sort", "sort"),
            None if is_count else self._number(value, "skip", None),
            None if is_count else self._number(value, "limit", self.rules.max_limit),
            find=find,
            results=shape.results,
        )

    def _check_result_sort(self, sort: Any, results: Collection[str]) -> None:
        for name in sort if isinstance(sort, dict) else ():
            if name in GRAPHQL.operators:  # callers could sort by what they do not see
                hint = 'use it for a direction: {"count": {"$arg": "…"}}'
                self._error(f"sort.{name}", "cannot choose the values to sort by", hint)
            elif name not in results:
                hint = f"its values are {', '.join(results)}"
                self._error(f"sort.{name}", "no value of the groups has this name", hint)

    def _disk_use(self, value: Mapping[str, Any]) -> bool:
        disk_use = value.get("allowDiskUse", False)
        if not isinstance(disk_use, bool):
            self._error("allowDiskUse", f"must be a boolean, not {describe(disk_use)}")
        return bool(disk_use)

    def _plan_joined(self, pipeline: Any, db: str) -> None:
        """Defer the check that the collections exist which the stages read besides their own."""
        if not self.findings.errors:
            for reference in dict.fromkeys(find_references(pipeline, db)):
                place = Namespace(f"{self.where}.stages", reference.db, reference.collection)
                self.findings.questions.append(place)

    def _check_security(self, check: Any, key: str = "find") -> None:
        try:
            check()
        except (SecurityViolation, QueryError) as error:
            self._error(key, error.message, error.hint)

    def _warn_unknown(self, value: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in value:
            if key in known:
                continue
            where = f"{self.where}.{key}"
            if key in _QUERY_KEYS:
                kind = next(kind for kind in _KINDS if kind in value)
                hint = _AS_STAGES.get(key) if kind == "stages" else None
                self.findings.warn(where, f"has no effect beside {kind}", hint)
            elif key in _AGGREGATION_KEYS:
                self.findings.warn(where, "has no effect without stages")
            else:
                nearest = find_nearest(key, (*known, *_KINDS))
                hint = f"did you mean {nearest}?" if nearest else f"known are {', '.join(known)}"
                self.findings.warn(where, "is not known and has no effect", hint)

    def _template(
        self, value: Mapping[str, Any], key: str, context: TemplateContext
    ) -> Template | None:
        part = value.get(key)
        if part is None:
            return None
        if not isinstance(part, dict):
            self._error(key, f"must be an object, not {describe(part)}")
            return None
        return self._compile(part, key, context)

    def _compile(self, source: Any, key: str, context: TemplateContext) -> Template:
        template, flaws = inspect_template(source, context=context)
        self.findings.flaws(join_place(self.where, key), flaws)
        self.findings.defer(join_place(self.where, key), (*template.unknown, *template.parts))
        return template

    def _number(self, value: Mapping[str, Any], key: str, highest: int | None) -> Template | None:
        part = value.get(key)
        if part is None:
            return None
        if isinstance(part, dict):
            if GRAPHQL.operators & part.keys():
                return self._compile(part, key, "number")
            self._error(key, 'must be a whole number or an operator such as {"$arg": "…"}')
        elif not _is_whole(part):
            self._error(key, f"must be a whole number or an object, not {describe(part)}")
        elif part < 0:
            self._error(key, "cannot be negative")
        elif highest is not None and part > highest:
            hint = "the option graphql.max-limit sets how many there may be"
            self._error(key, f"cannot be greater than {highest}", hint)
        else:
            return self._compile(int(part), key, "number")
        return None

    def _loader(self, value: Mapping[str, Any]) -> DataLoader:
        options = value.get("dataLoader")
        if options is None:
            return DataLoader()
        if not isinstance(options, dict):
            self._error("dataLoader", f"must be an object, not {describe(options)}")
            return DataLoader()
        for key, option in options.items():
            where = f"dataLoader.{key}"
            wanted: Any = int if key == "maxBatchSize" else bool
            if key not in _LOADER_KEYS:
                what = "is not known and has no effect"
                self.findings.warn_unknown(f"{self.where}.{where}", what, key, _LOADER_KEYS)
            elif not isinstance(option, wanted) or (wanted is int and isinstance(option, bool)):
                self._error(where, f"must be a {_NOUNS[wanted]}, not {describe(option)}")
        return DataLoader(
            options.get("batching") is not False,
            options.get("caching") is not False,
            size if isinstance(size := options.get("maxBatchSize"), int) and size > 0 else 0,
        )

    def _check_uses(self, mapping: QueryMapping | AggregationMapping, field: Any) -> None:
        """Check the names that the operators refer to."""
        for key in ("find", "sort", "skip", "limit", "stages"):
            template = getattr(mapping, key, None)
            if key == "stages" and isinstance(mapping, GroupMapping):
                continue  # they begin with `find`
            for use in template.uses if template is not None else ():
                where = join_place(key, use.where)
                if use.reference is not None:
                    self._check_reference(where, use.reference, use.is_required, field)
                    if field is not None and use.reference.source is ValueOrigin.ARGUMENT:
                        place = join_place(self.where, where)
                        warn_text_only(place, key, use, field, self.findings)
                elif self.is_query:
                    self._error(where, "a field of Query has no parent document")

    def _check_reference(
        self, where: str, reference: VariableName, is_required: bool, field: GraphQLField | None
    ) -> None:
        head = reference.head
        match reference.source:
            case ValueOrigin.ROOT:
                if self.is_query and is_required:
                    self._error(
                        where,
                        "a field of Query has no root document",
                        f'give it a default: {{"$arg": ["{reference.name}", null]}}',
                    )
            case ValueOrigin.VARIABLE:
                if head not in self.rules.variables:
                    place = join_place(self.where, where)
                    what = f"@{head} is not a known variable"
                    self.findings.warn_unknown(place, what, head, self.rules.variables)
            case ValueOrigin.ARGUMENT:
                if field is not None and head not in field.args:
                    place = join_place(self.where, where)
                    what = f"the field has no argument {head}"
                    self.findings.warn_unknown(place, what, head, field.args)


def _is_whole(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def _find_misspelling(key: str, value: Mapping[str, Any]) -> str | None:
    """Return the key that was probably meant to be the missing one."""
    known = {*_QUERY_KEYS, *_AGGREGATION_KEYS, *_KINDS}
    near = [name for name in value if name not in known and find_nearest(name, known) == key]
    return f"{near[0]!r} is not known: did you mean {key!r}?" if near else None


_NOUNS = {int: "whole number", bool: "boolean"}
_AS_STAGES = {
    "find": "make it a $match, the first of the stages",
    "sort": "make it a stage $sort",
    "skip": "make it a stage $skip",
    "limit": "make it a stage $limit",
    "filter": "map a find, or write a $match with arguments",
    "orderBy": "map a find, or make it a stage $sort",
}
