"""Parse a permission document to a rule, or to all mistakes with their locations.

Documents of the database and entries of a file are parsed alike: filters may be objects or JSON
text, keys may be escaped (`_$in`, `a::b`), `role` is an alias of `roles`. An unknown key is a
mistake: a misspelt `readFilter` would permit what it was written to deny.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from docgraph.access.language import Predicate, compile_predicate
from docgraph.access.language.function import FunctionScope
from docgraph.access.rule import FLAGS, Conditions, Rule, RuleOrigin
from docgraph.codec import decode, unescape_keys
from docgraph.config.nearest import find_nearest
from docgraph.exchange.errors import DocgraphError
from docgraph.predicates import PredicateError
from docgraph.store import Store
from docgraph.store.guard.stage_checks import Policy, check_filter
from docgraph.store.names import check_namespace
from docgraph.variables import REST, Flaw, Template, UnknownOperator, inspect_template
from docgraph.variables.template import TemplateContext

_KEYS: Final = ("predicate", "roles", "role", "priority", "mongo", "description")
FILTERS: Final = ("readFilter", "readFilters", "writeFilter", "mergeRequest", "projectResponse")
_MAX_TEXT: Final = 64 * 1024  # of an object that is written as text; parsed on the event loop
_MAX_ROLES: Final = 1000
MAX_FLAWS: Final = 100  # that an error reports


@dataclass(frozen=True, slots=True)
class Knowledge:
    """Names that rules are checked against: existing variables, and rejected operators."""

    variables: frozenset[str]
    policy: Policy = field(default_factory=Policy)


def read_rule(
    document: Mapping[str, Any], source: RuleOrigin, knowledge: Knowledge, *, position: int = 0
) -> Rule | list[Flaw]:
    """Return the rule, or every flaw with its location in the document."""
    reader = _Reader(knowledge)
    reader.check_keys(document, _KEYS, "")
    predicate = reader.read_predicate(document.get("predicate"))
    roles = reader.read_roles(document)
    priority = reader.read_priority(document.get("priority"))
    conditions = reader.read_conditions(document.get("mongo"))
    if reader.flaws or predicate is None:
        return reader.flaws
    id = document.get("_id")
    unknown_operators = tuple(reader.unknown_operators)
    return Rule(
        id, source, roles, predicate, priority, conditions, position, document, unknown_operators
    )


def describe_flaw(flaw: Flaw, prefix: str = "") -> str:
    """Return `Wrong permission: permissions[2].mongo.readFilter must be an object`."""
    where = ".".join(part for part in (prefix, flaw.where) if part)
    return f"Wrong permission: {where} {flaw.what}" if where else f"Wrong permission: {flaw.what}"


def describe_flaws(flaws: Sequence[Flaw]) -> str:
    """Return the first flaw with its hint, and the number of the others."""
    first = flaws[0]
    hint = f" ({first.hint})" if first.hint else ""
    more = f", and {len(flaws) - 1} more" if len(flaws) > 1 else ""
    return f"{describe_flaw(first)}{hint}{more}"


class _Reader:
    def __init__(self, knowledge: Knowledge) -> None:
        self.flaws: list[Flaw] = []
        self.unknown_operators: list[UnknownOperator] = []
        self._knowledge = knowledge

    def flaw(
        self, where: str, what: str, hint: str | None = None, place: tuple[int, int] = (0, 0)
    ) -> None:
        self.flaws.append(Flaw(where, what, hint, *place))

    def check_keys(self, document: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
        for key in document:
            if len(self.flaws) >= MAX_FLAWS:
                return
            if key not in keys and key[:1] != "_":
                near = find_nearest(key, (*_KEYS, *FLAGS, *FILTERS))  # it may be in the wrong level
                place = "" if near in _KEYS else "mongo."
                hint = f"did you mean {place}{near}?" if near else f"known are {', '.join(keys)}"
                self.flaw(f"{where}{key}", "is not a key of a permission", hint)

    def read_predicate(self, text: Any) -> Predicate | None:
        if not isinstance(text, str) or not text.strip():
            self.flaw("predicate", "must be a text such as path-prefix('/inventory')")
            return None
        try:
            return compile_predicate(text, self._knowledge.variables)
        except PredicateError as error:
            before = text[: error.column - 1].split("\n")
            place = (len(before), len(before[-1]) + 1)
            self.flaw("predicate", f"cannot be read: {error}", place=place)
            return None

    def read_roles(self, document: Mapping[str, Any]) -> frozenset[str]:
        if "role" in document and "roles" in document:
            self.flaw("role", "cannot be used together with roles", "list all of them in roles")
        key = "role" if "role" in document else "roles"
        roles = document.get(key)
        listed = [roles] if key == "role" else roles
        if not isinstance(listed, list | tuple) or not listed or len(listed) > _MAX_ROLES:
            self.flaw(key, "must be a list of roles that is not empty")
            return frozenset()
        if not all(type(role) is str and role for role in listed):  # code is no text
            self.flaw(key, "must hold texts only")
            return frozenset()
        return frozenset(listed)

    def read_priority(self, priority: Any) -> float | None:
        if priority is None:
            return None
        is_number = isinstance(priority, int | float) and not isinstance(priority, bool)
        if not is_number or math.isnan(priority):
            self.flaw("priority", "must be a number")
            return None
        return float(priority)

    def read_conditions(self, block: Any) -> Conditions:
        if block is None:
            return Conditions()
        if not isinstance(block, Mapping):
            self.flaw("mongo", "must be an object or null")
            return Conditions()
        block = unescape_keys(dict(block))
        self.check_keys(block, (*FLAGS, *FILTERS), "mongo.")
        return Conditions(
            read_filter=self._read_filter(block.get("readFilter"), "mongo.readFilter"),
            read_filters=self._read_filters(block.get("readFilters")),
            write_filter=self._read_filter(block.get("writeFilter"), "mongo.writeFilter"),
            merge_request=self._read_merge(block.get("mergeRequest")),
            project_response=self._read_projection(block.get("projectResponse")),
            flags=frozenset(flag for flag in FLAGS if self._read_flag(block, flag)),
        )

    def _read_flag(self, block: Mapping[str, Any], flag: str) -> bool:
        value = block.get(flag)
        if value is not None and not isinstance(value, bool):
            self.flaw(f"mongo.{flag}", "must be a boolean")
        return value is True

    def _read_filters(self, filters: Any) -> Mapping[str, Template]:
        by_namespace = self._read_object(filters, "mongo.readFilters") or {}
        templates: dict[str, Template] = {}
        for namespace, filter in by_namespace.items():
            where = f"mongo.readFilters.{namespace}"
            db, _, collection = namespace.partition(".")
            try:
                check_namespace(db, collection)
            except DocgraphError as error:
                self.flaw(where, f"is not '<db>.<collection>': {error.message}")
                continue
            template = self._read_filter(filter, where)
            if template is None:
                self.flaw(where, "must be an object")
            else:
                templates[namespace] = template
        return templates

    def _read_filter(self, filter: Any, where: str) -> Template | None:
        source = self._read_object(filter, where)
        if source is None:
            return None
        try:
            check_filter(source, policy=self._knowledge.policy, trusted=True, origin=where)
        except DocgraphError as error:
            self.flaw(where, f"is refused: {error.message}")
            return None
        return self._compile(source, where, "filter")

    def _read_merge(self, merge: Any) -> Template | None:
        source = self._read_object(merge, "mongo.mergeRequest")
        if source is None:
            return None
        for key in source:
            if key.startswith("$") or not all(key.split(".")):
                self.flaw(f"mongo.mergeRequest.{key}", "must be a property or a path of one")
        return self._compile(source, "mongo.mergeRequest", "plain")

    def _read_projection(self, projection: Any) -> Mapping[str, int] | None:
        source = self._read_object(projection, "mongo.projectResponse")
        if not source:
            return None
        where = "mongo.projectResponse"
        for key, value in source.items():
            if key.startswith("$") or not all(key.split(".")):
                self.flaw(f"{where}.{key}", "must be a property or a path of one")
                return None
            if isinstance(value, bool) or value not in (0, 1):
                self.flaw(f"{where}.{key}", "must be 0 or 1")
                return None
        values = {key: int(value) for key, value in source.items()}
        if len(set(values.values())) > 1:
            self.flaw(where, "must not mix 0 and 1")
            return None
        return values

    def _read_object(self, value: Any, where: str) -> dict[str, Any] | None:
        if isinstance(value, str):
            if len(value) > _MAX_TEXT:
                self.flaw(where, f"has more than {_MAX_TEXT} characters")
                return None
            try:
                value = decode(value)
            except DocgraphError as error:
                place = error.details or {}
                line, column = place.get("line", 0), place.get("column", 0)
                self.flaw(where, f"is not JSON: {error.message}", place=(line, column))
                return None
            value = unescape_keys(value) if isinstance(value, dict) else value
        if value is not None and not isinstance(value, dict):
            self.flaw(where, "must be an object")
            return None
        return value

    def _compile(self, source: dict[str, Any], where: str, context: TemplateContext) -> Template:
        template, flaws = inspect_template(
            self._mark(source, where), vocabulary=REST, context=context
        )
        for flaw in flaws:
            self.flaw(f"{where}.{flaw.where}" if flaw.where else where, flaw.what, flaw.hint)
        for name in template.names:
            try:
                if not name.startswith("@"):
                    raise ValueError(f"{name!r} is not a variable")
                FunctionScope(self._knowledge.variables).read(name)
            except ValueError as error:
                self.flaw(where, f"cannot be read: {error}")
        # Rules have variables in texts, and no operators for variables to suggest.
        self.unknown_operators += [
            replace(operator, where=f"{where}.{operator.where}", ours=frozenset())
            for operator in template.unknown
        ]
        return template

    def _mark(self, value: Any, where: str) -> Any:
        """Return a text that is a variable as the reference that templates use."""
        if isinstance(value, dict):
            return {key: self._mark(item, where) for key, item in value.items()}
        if isinstance(value, list):
            return [self._mark(item, where) for item in value]
        if isinstance(value, str) and value.startswith("@"):
            return value[1:] if value.startswith("@@") else {REST.argument: value}
        return value


async def find_refused(rule: Rule, store: Store, place: tuple[str, str]) -> list[Flaw]:
    """Return the operators that the database rejects, too, when tried on a collection."""
    return [
        _describe(operator)
        for operator in rule.unknown_operators
        if await store.trials.refuses_operator(operator.name, operator.kind, place)
    ]


def find_unknown(rule: Rule) -> list[Flaw]:
    """Return unknown operators as mistakes, for use without a database."""
    return [_describe(operator) for operator in rule.unknown_operators]


def warn_of_unknown(rule: Rule) -> list[Flaw]:
    """Return unknown operators as warnings: a newer database may support them."""
    return [
        Flaw(operator.where, f"docgraph does not know the operator {operator.name}", operator.hint)
        for operator in rule.unknown_operators
    ]


def _describe(operator: UnknownOperator) -> Flaw:
    return Flaw(
        operator.where, f"is not known: MongoDB has no operator {operator.name}", operator.hint
    )
