"""Aggregation security: the checker of stages and operators for GraphQL, REST and streams.

It runs when a definition is written and inside every call of the store, after substitution, so it
must be fast. A first pass over the value only answers yes or no; a second, slower one finds the
location if the answer is yes. Stages have an allowlist, since every version of the server adds
new ones; operators have a blocklist, on exact keys. A block-list on text would not work: `{"a":
"$where"}` is harmless and `{"\\u0024where": …}` is not.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex
from bson.timestamp import Timestamp

from docgraph.config.nearest import find_nearest
from docgraph.exchange.data import Stages
from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.store.guard.expression_checks import (
    COSTLY,
    COSTLY_VALUES,
    check_filter_cost,
    check_pipeline_cost,
    check_projection_cost,
)
from docgraph.store.guard.references import (
    READING_MORE,
    CollectionReference,
    ExpressionPath,
    VisitedStage,
    nested_pipelines,
    read_reference,
    visit_stages,
)
from docgraph.store.names import check_database, check_namespace, check_reserved
from docgraph.store.sections import AggregationSecurity

_WRITES: Final = "it writes to the database"
_RUNS_CODE: Final = "it runs JavaScript on the database"
_SHOWS_STATE: Final = "it shows the state of the server"
_CONFIGURED: Final = "the section aggregationSecurity refuses it"
_UNKNOWN: Final = "it is not one of the stages that are allowed here"
_FROM_CALLER: Final = "a value supplied by a caller may not hold it"

_LONGEST: Final = 200
# The server accepts documents nested 180 deep, so deeper values need no check, and code that walks
# over a checked value never exceeds the stack.
_DEEPEST: Final = 200

_JAVASCRIPT = ("$where", "$function", "$accumulator", "$_internaljsemit", "$_internaljsreduce")
_STATE = """
    $changestream $changestreamsplitlargeevent $collstats $currentop $indexstats $listcatalog
    $listclustercatalog $listlocalsessions $listsampledqueries $listsearchindexes $listsessions
    $plancachestats $querysettings $querystats $shardeddatadistribution
""".split()
# Always rejected, as stage or operator, at any depth; in lower case.
_ALWAYS: dict[str, str] = {
    "$out": _WRITES,
    "$merge": _WRITES,
    **dict.fromkeys(_JAVASCRIPT, _RUNS_CODE),
    **dict.fromkeys(_STATE, _SHOWS_STATE),
}

UPDATE_STAGES: Final = frozenset(
    "$addFields $project $replaceRoot $replaceWith $set $unset".split()
)
STREAM_STAGES: Final = UPDATE_STAGES | {"$match", "$redact"}
READ_STAGES: Final = STREAM_STAGES.union(
    """
    $bucket $bucketAuto $count $densify $documents $facet $fill $geoNear $graphLookup $group $limit
    $lookup $sample $search $searchMeta $setWindowFields $skip $sort $sortByCount $unionWith $unwind
    $vectorSearch
    """.split()
)
# Types without keys. Any type that is neither here nor a dict or list is inspected further.
_SCALARS = frozenset(
    {str, int, float, bool, type(None), bytes, ObjectId, Int64, Decimal128, Binary, Code}
    | {Timestamp, DatetimeMS, MinKey, MaxKey, datetime.datetime, uuid.UUID}
)
_FLAGS = frozenset({int, float, bool, Int64})
_COMPARING = frozenset({"$eq", "$in", "$match"})
_NO_MARK = (None, "", None)


@dataclass(frozen=True, slots=True)
class Policy:
    """The configurable lists, in addition to what is always rejected."""

    stages: frozenset[str] = frozenset()
    operators: frozenset[str] = frozenset()
    allow_cross_database: bool = False
    refused: frozenset[str] = field(init=False, default=frozenset())
    may_compare: bool = field(init=False, default=True)  # fields with values, as nearly always

    def __post_init__(self) -> None:
        # Without those that are always rejected, which are the defaults: mostly nothing is left.
        object.__setattr__(self, "stages", _lower(self.stages) - _ALWAYS.keys())
        object.__setattr__(self, "refused", frozenset(_ALWAYS) | _lower(self.operators))
        object.__setattr__(self, "may_compare", self.refused.isdisjoint(_COMPARING))

    @classmethod
    def from_section(cls, section: AggregationSecurity) -> Policy:
        """Return the policy of the section; disabling the section disables only its lists."""
        if not section.enabled:
            return cls()
        return cls(
            frozenset(section.stage_blacklist),
            frozenset(section.operator_blacklist),
            section.allow_cross_database_operations,
        )


class KeptStage(dict[str, Any]):
    """A constant stage of a command template, which is never changed (decision 69).

    It is checked once for each policy, database and set of allowed stages. The values of a request
    are in other stages and in filters, which are checked at every call. There, a value can never
    become an operator, a path or a stage: templates insert it where MongoDB compares
    (`docgraph.variables`), and only a value of a type without keys is passed without a search.
    What depends on the caller or on facts of collections (row filters, hidden properties,
    collations, views) is added or checked for each call, behind these checks.
    """

    __slots__ = ("sound",)
    sound: tuple[Policy, str, frozenset[str]]  # set where nothing was to be rejected


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def check_filter(
    value: Any,
    *,
    policy: Policy,
    from_caller: bool = False,
    trusted: bool = False,
    origin: str = "filter",
) -> None:
    """Reject operators and costly expressions in a filter.

    `value` may be any part of a filter. A value of a caller (`from_caller`) must not contain
    `$expr` at all. In a filter that an author wrote (`trusted`) only supplied values count.
    """
    if policy.may_compare and holds_only_values(value):
        return
    refused = policy.refused | {"$expr"} if from_caller else policy.refused
    costly = COSTLY_VALUES if trusted else COSTLY
    if _check_keys(value, refused, origin, costly):
        check_filter_cost(value, origin, trusted=trusted)


def holds_only_values(value: Any) -> bool:
    """Return whether a filter only compares fields, by `$eq` and `$in`, with values without keys.

    This is what most command templates become. The types of the inserted values are checked here,
    at every call; every other filter is searched for operators.
    """
    if type(value) is not dict:
        return False
    for path, condition in value.items():
        if type(path) is not str or path[:1] == "$":
            return False
        if type(condition) in _SCALARS:
            continue
        if type(condition) is not dict or len(condition) != 1:
            return False
        ((operator, operand),) = condition.items()
        is_list = operator == "$in" and type(operand) is list
        if is_list and _SCALARS.issuperset(map(type, operand)):
            continue
        if operator != "$eq" or type(operand) not in _SCALARS:
            return False
    return True


def check_projection(
    projection: Mapping[str, Any], *, policy: Policy, origin: str = "projection"
) -> None:
    """Reject operators and costly expressions in a projection."""
    # A computed property is not a number; our own projections are numbers.
    if projection and not _FLAGS.issuperset(map(type, projection.values())):
        _check_keys(projection, policy.refused, origin)
        check_projection_cost(projection, origin)


def check_pipeline(
    pipeline: Stages,
    *,
    db: str,
    policy: Policy,
    origin: str = "pipeline",
    allowed: frozenset[str] = READ_STAGES,
    trusted: bool = True,
) -> None:
    """Reject stages, operators, namespaces and costly expressions, through nested pipelines.

    An author wrote the stages, unless `trusted` is False.
    """
    if trusted and _is_sound(pipeline, db, policy, allowed):
        return
    try:
        for visited in visit_stages(pipeline, db, ExpressionPath(None, origin)):
            if visited.name not in allowed or policy.stages:
                _check_name(visited.name, str(visited.place), policy, allowed)
            if (reference := visited.reference) is not None:
                _check_reference(visited, reference, policy)
    except RecursionError:
        raise QueryError(f"{origin} is nested too deeply") from None
    for index, stage in enumerate(pipeline):
        _check_keys(stage, policy.refused, f"{origin}[{index}]")
    check_pipeline_cost(pipeline, origin, trusted=trusted)


def _is_sound(pipeline: Any, db: str, policy: Policy, allowed: frozenset[str]) -> bool:
    """Return True quickly for common pipelines in which nothing is to be rejected.

    In uncertain cases it is False, and the slower pass, which knows all locations, decides.
    """
    if policy.stages or type(pipeline) is not list:
        return False
    may_match = policy.may_compare and "$match" in allowed
    unchecked: list[Any] = []  # stages that were not checked once, and do not just compare values
    for stage in pipeline:
        kind = type(stage)
        if kind is KeptStage:
            mark = getattr(stage, "sound", _NO_MARK)
            is_checked = mark[0] is policy and mark[1] == db and mark[2] is allowed
        else:
            is_match = may_match and kind is dict and len(stage) == 1 and "$match" in stage
            is_checked = is_match and holds_only_values(stage["$match"])
        if not is_checked:
            unchecked.append(stage)
    if not unchecked:
        return True
    try:
        is_sound = _has_sound_stages(unchecked, db, allowed) and not has_key(
            unchecked, _join(policy.refused, COSTLY_VALUES)
        )
    except (QueryError, SecurityViolation, TypeError, AttributeError, RecursionError):
        return False
    for stage in unchecked if is_sound else ():
        if type(stage) is KeptStage:
            stage.sound = (policy, db, allowed)
    return is_sound


def _has_sound_stages(pipeline: Any, db: str, allowed: frozenset[str]) -> bool:
    """Check stages like `visit_stages`, without locations, in half the time: it runs every time."""
    if type(pipeline) is not list:
        return False
    for stage in pipeline:
        is_usual = (type(stage) is dict or type(stage) is KeptStage) and len(stage) == 1
        ((name, body),) = stage.items() if is_usual else [("", None)]
        if name not in allowed:
            return False
        if name in READING_MORE:
            reference = read_reference(name, body, db, "")
            if reference is not None:
                if reference.db != db or reference.dotted is not None:
                    return False
                check_namespace(db, reference.collection)
                check_reserved(reference.collection)
            if not all(
                _has_sound_stages(inner, db, allowed) for _, inner in nested_pipelines(name, body)
            ):
                return False
    return True


def _check_name(name: Any, location: str, policy: Policy, allowed: frozenset[str]) -> None:
    lowered = str(name).lower()
    if lowered in _JAVASCRIPT:
        raise _violation("JAVASCRIPT_EXECUTION", name, location, _RUNS_CODE)
    if lowered in _ALWAYS:
        raise _violation("BLACKLISTED_STAGE", name, location, _ALWAYS[lowered])
    if lowered in policy.stages:
        raise _violation("BLACKLISTED_STAGE", name, location, _CONFIGURED)
    if name not in allowed:
        nearest = find_nearest(lowered, allowed)
        hint = f"did you mean {nearest}?" if nearest else None
        raise _violation("BLACKLISTED_STAGE", name, location, _UNKNOWN, hint)


def _check_reference(stage: VisitedStage, reference: CollectionReference, policy: Policy) -> None:
    other = reference.dotted or reference.db
    try:
        if other != stage.db and not policy.allow_cross_database:
            raise SecurityViolation("it may only read its own database")
        check_namespace(reference.db, reference.collection)
        check_reserved(reference.collection)
        check_database(other)
    except SecurityViolation as error:
        violation = "CROSS_DATABASE_ACCESS"
        raise _violation(violation, stage.name, str(stage.place), error.message) from None


def _check_keys(
    value: Any, refused: frozenset[str], location: str, costly: frozenset[str] = frozenset()
) -> bool:
    """Check if one of the `costly` keys is in the value, and none of the rejected ones."""
    try:
        if type(value) in _SCALARS or not has_key(value, _join(refused, costly)):
            return False
        if not has_key(value, refused):
            return True
        position, operator = _locate(value, refused, location) or (location, "?")
    except (TypeError, AttributeError):
        raise QueryError(f"{location}: every key must be text") from None
    except RecursionError:
        raise QueryError(f"{location} is nested too deeply") from None
    lowered = operator.lower()
    reason = _FROM_CALLER if lowered == "$expr" else _ALWAYS.get(lowered, _CONFIGURED)
    raise _violation("BLACKLISTED_OPERATOR", operator, position, reason)


@lru_cache(maxsize=64)
def _join(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    return first | second


def has_key(value: Any, keys: frozenset[str]) -> bool:
    """Check if one of `keys` (operators in lower case) is a key at any depth of the value.

    It goes level by level: a function call per nested document would cost more than its check.
    """
    level = [value]
    for _ in range(_DEEPEST):
        below: list[Any] = []
        for part in level:
            if type(part) is dict:
                for key, inner in part.items():
                    if key[:1] == "$" and key.lower() in keys:
                        return True
                    if type(inner) not in _SCALARS:
                        below.append(inner)
            else:
                below += _open_container(part)
        if not below:
            return False
        level = below
    raise RecursionError


def _open_container(value: Any) -> Sequence[Any]:
    """Return the nested values that may contain keys."""
    if isinstance(value, (list, tuple)):
        # Long lists are lists of ids, and `issuperset` iterates over them in C.
        return () if _SCALARS.issuperset(map(type, value)) else value
    if isinstance(value, Mapping):  # SON, RawBSONDocument: encoded like a dict, so read like one
        return (dict(value),)
    if isinstance(value, Regex | re.Pattern):  # the same as `{"$regex": …}`
        return ({"$regex": value.pattern},)
    return ()


def _locate(value: Any, keys: frozenset[str], location: str) -> tuple[str, str] | None:
    """Return the location that contains one of the keys, and the key."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key.startswith("$") and key.lower() in keys:
                return location, key
            if located := _locate(inner, keys, f"{location}.{key}"):
                return located
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            if located := _locate(inner, keys, f"{location}[{index}]"):
                return located
    elif isinstance(value, Regex | re.Pattern) and "$regex" in keys:
        return location, "$regex"
    return None


def _violation(
    type: str, operator: Any, location: str, reason: str, hint: str | None = None
) -> SecurityViolation:
    where, name = location[:_LONGEST], str(operator)[:_LONGEST]  # both may be text of a caller
    text = f"Security violation: {type} operator '{name}' at {where} - {reason}"
    return SecurityViolation(text, hint=hint)
