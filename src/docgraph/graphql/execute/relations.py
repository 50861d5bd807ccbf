"""Conditions on related documents: replaced before a list is read (decision 73).

    find the keys of the related documents → a condition on the near documents (semi-join)
    too many keys → `$lookup` behind the other conditions of the near documents
    collations that differ, and texts → the near keys are compared in the other collection

Every command is that of a caller who queries the related collection: its row filters and hidden
properties apply. The choice depends on documents that the caller may read, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from graphql import FieldNode, NameNode

from docgraph.codec.equality import equality_key
from docgraph.exchange import Document
from docgraph.exchange.data import CollectionName, Filter
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.conditions import combine
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.near_keys import (
    Key,
    build_lookup,
    count_by_key,
    group_keys,
    has_texts,
    is_countable,
    match_keys,
    match_others,
    read_keys,
)
from docgraph.graphql.plan.arguments import build_arguments
from docgraph.graphql.plan.plan_tree import Fetch, PlanTree
from docgraph.graphql.plan.relation import build_projection
from docgraph.graphql.related import (
    COUNTED,
    RelatedCondition,
    RelationSpec,
    find_conditions,
    list_namespaces,
    replace_conditions,
    split_conjuncts,
)
from docgraph.runtime.tasks import concurrently
from docgraph.store.collection_stats import MISSING
from docgraph.store.driver.lenient_decode import encode_bson
from docgraph.store.driver.malformed import reading_reply
from docgraph.variables import MATCH_NOTHING, Scope, Template, matches_nothing

KEY_BYTES: Final = 4 << 20  # of all keys in a command
_SHARED_KEY_BYTES: Final = 64 << 10  # where a command has the condition for each of 200 parents


class Resolved(NamedTuple):
    """A filter without conditions on related documents, and the stages that decide the rest."""

    filter: Filter
    stages: tuple[Document, ...] = ()


class _Lookup(NamedTuple):
    """A condition that `$lookup` decides, with the stages on the related documents."""

    spec: RelationSpec
    inner: list[Document]


async def resolve_relations(tree: PlanTree, run: Run) -> None:
    """Replace the conditions on related documents of every list."""
    filtered = [
        (fetch, mapping)
        for fetch, mapping in tree.listed_fetches
        if run.prepared[id(fetch)].where.has_relations and not run.prepared[id(fetch)].failure
    ]
    if filtered:
        await concurrently([_resolve_fetch(*each, run) for each in filtered])


async def _resolve_fetch(fetch: Fetch, mapping: QueryMapping, run: Run) -> None:
    prepared = run.prepared[id(fetch)]
    where = prepared.where
    template = mapping.find if fetch.is_root else fetch.relation.rest
    room = KEY_BYTES if fetch.is_root else _SHARED_KEY_BYTES
    try:
        around = _render(template, prepared.scope)
        near = (mapping.db, mapping.collection)
        resolver = _Resolver(fetch, run, prepared.scope)
        resolved = await resolver.resolve(near, where.filter, [around], room)
        related = prepared.related._replace(filtering=resolved.stages)
        window = prepared.window and prepared.window._replace(related=related)
        where = where._replace(filter=resolved.filter, has_relations=False)
        prepared = prepared._replace(where=where, window=window, related=related)
    except FieldFailure as failure:
        prepared = prepared._replace(failure=failure)
    except DocgraphError as error:
        prepared = prepared._replace(failure=describe_failure(error))
    run.prepared[id(fetch)] = prepared


def _render(template: Template | None, scope: Scope) -> Filter:
    """Return what the mapping requires of near documents, as far as no parent decides it."""
    if template is None or template.depends_on_parent:
        return {}
    rendered: Filter = template.render(scope)
    return rendered


def render_rest(spec: RelationSpec, scope: Scope, run: Run) -> Any:
    """Return the filter of a relation, with the defaults of its arguments."""
    type_: Any = run.plan.app.schema.type_map[spec.type_name]
    field = type_.fields[spec.name]
    given: Mapping[str, Any] = {}
    if field.args:
        given = build_arguments(field, FieldNode(name=NameNode(value=spec.name))).fixed
    return spec.rest.render(Scope(given, scope.variables))


async def compares_alike(near: CollectionName, far: CollectionName, run: Run) -> bool:
    """Return whether two collections have the same default collation."""
    first, second = await run.store.stats.collation(*near), await run.store.stats.collation(*far)
    return MISSING in (first, second) or (first is not None and first == second)


@dataclass(slots=True)
class _Resolver:
    """Resolves the conditions of one list.

    The result does not depend on which of several conditions is answered first.
    """

    fetch: Fetch
    run: Run
    scope: Scope

    async def resolve(
        self, near: CollectionName, filter_: Filter, around: Sequence[Filter], room: int
    ) -> Resolved:
        """Resolve a filter on a collection; `around` are other conditions on its documents.

        Its conditions share `room`, the bytes that their keys may have.
        """
        conditions = list(find_conditions(filter_))
        if not conditions:
            return Resolved(filter_)
        parts = split_conjuncts(filter_)
        plain = [part for part in parts if not any(True for _ in find_conditions(part))]
        around = [*around, *plain]
        share = room // len(conditions)
        answers = await concurrently(
            [self._try_deciding(near, each, around, share) for each in conditions]
        )
        stages: list[Document] = []
        decided: dict[int, Filter] = {}
        looked_up: set[int] = set()
        for number, (condition, answer) in enumerate(zip(conditions, answers, strict=True)):
            if isinstance(answer, FieldFailure):
                raise answer
            if isinstance(answer, _Lookup):
                added, decided[id(condition)] = build_lookup(number, answer.spec, answer.inner)
                stages += added
                looked_up.add(id(condition))
            else:
                decided[id(condition)] = answer
        front: list[Filter] = []
        behind: list[Filter] = []
        for part in parts:
            replaced = replace_conditions(part, lambda each: decided[id(each)])
            if matches_nothing(replaced):
                return Resolved(MATCH_NOTHING)
            is_late = any(id(each) in looked_up for each in find_conditions(part))
            (behind if is_late else front).append(replaced)
        if behind:
            computed = [name for stage in stages for name in stage.get("$set", ())]
            computed += [stage["$lookup"]["as"] for stage in stages if "$lookup" in stage]
            stages += [{"$match": combine(behind)}, {"$unset": computed}]
        return Resolved(combine(front), tuple(stages))

    async def _try_deciding(
        self,
        near: CollectionName,
        condition: RelatedCondition,
        around: Sequence[Filter],
        room: int,
    ) -> Filter | _Lookup | FieldFailure:
        try:
            return await self._decide(near, condition, around, room)
        except FieldFailure as failure:  # the first condition that fails is reported
            return failure

    async def _decide(
        self,
        near: CollectionName,
        condition: RelatedCondition,
        around: Sequence[Filter],
        room: int,
    ) -> Filter | _Lookup:
        """Return the condition on near documents, or what looks their relation up."""
        spec, run = condition.spec, self.run
        rest = render_rest(spec, self.scope, run)
        if matches_nothing(rest):
            return MATCH_NOTHING
        far = await self.resolve(spec.place, condition.filter, [rest], room)
        if matches_nothing(far.filter):
            return MATCH_NOTHING
        match = combine([rest, far.filter])
        selecting = [*([{"$match": match}] if match else []), *far.stages]
        by_keys = await self._join_by_keys(near, condition, selecting, room)
        if by_keys is not None:
            return by_keys
        if condition.count is not None:
            selecting += [{"$count": COUNTED}, {"$match": condition.count}]
        if not await compares_alike(near, spec.place, run):
            return await self._compare_far(near, condition, selecting, around)
        if near[0] != spec.place[0]:
            raise FieldFailure(
                f"where.{condition.path}: too many documents of {spec.name} satisfy it, and they"
                " are in another database: ask for fewer",
                "relation-too-large",
            )
        return _Lookup(spec, [*selecting, {"$limit": 1}, {"$project": {"_id": 1}}])

    async def _join_by_keys(
        self,
        near: CollectionName,
        condition: RelatedCondition,
        selecting: list[Document],
        room: int,
    ) -> Filter | None:
        """Return the condition on the keys of near documents; None if that is not possible."""
        spec, large = condition.spec, self.run.plan.large_relations
        if await self._expects_many(near, condition):
            return None
        keys = await self._find_keys(condition, selecting)
        if keys is None:
            large.remember(spec)
            return None
        if has_texts(keys) and not await compares_alike(near, spec.place, self.run):
            return None
        filter_ = match_keys(spec.joins, keys)
        size = len(encode_bson({"k": [value for key in keys for value in key]}))
        if filter_ is None or size > room:
            large.remember(spec)
            return None
        return filter_

    async def _expects_many(self, near: CollectionName, condition: RelatedCondition) -> bool:
        """Return whether many keys were found before, and `$lookup` gives the same answer.

        Rows that are hidden, also in relations inside of the condition, must not decide it.
        """
        spec, rows = condition.spec, self.run.rows or {}
        if near[0] != spec.place[0] or rows.keys() & {".".join(near), *list_namespaces(condition)}:
            return False
        is_large = self.run.plan.large_relations.expects(spec)
        return is_large and await compares_alike(near, spec.place, self.run)

    async def _find_keys(
        self, condition: RelatedCondition, selecting: list[Document]
    ) -> list[Key] | None:
        """Return the keys of the related documents; None if they are too many."""
        spec, run = condition.spec, self.run
        bound = run.limits.fetched_documents
        if condition.count is None:
            stages = [*selecting, *group_keys(spec)]
        elif is_countable(spec):
            stages = [*selecting, *count_by_key(spec), {"$match": condition.count}]
        else:
            return None
        stages.append({"$limit": bound + 1})
        documents = await run.aggregate(self.fetch, stages, bound + 1, place=spec.place)
        if len(documents) > bound:
            return None
        if condition.count is None:
            keys = read_keys(spec.joins, documents)
        else:  # they are no stored values: an array is a key as a whole
            with reading_reply():
                keys = [(document["_id"],) for document in documents]
        return keys if len(keys) <= bound else None

    async def _compare_far(
        self,
        near: CollectionName,
        condition: RelatedCondition,
        selecting: list[Document],
        around: Sequence[Filter],
    ) -> Filter:
        """Return the near documents whose keys the collation of the related collection finds."""
        spec, run, bound = condition.spec, self.run, self.run.limits.fetched_documents
        shown = build_projection({"_id", *(join.key for join in spec.joins)})
        stages = [{"$match": combine(around)}, {"$project": shown}, {"$limit": bound + 1}]
        parents = await run.aggregate(self.fetch, stages, bound + 1, place=near)
        sought: dict[Any, list[Any]] = {}
        ids: dict[int, list[Any]] = {}
        with reading_reply():
            for parent in parents:
                keys = [join.list_keys(parent) for join in spec.joins]
                if all(keys):
                    number = len(sought)
                    entry = sought.setdefault(equality_key(keys), [number, keys])
                    ids.setdefault(entry[0], []).append(parent["_id"])
        names = [f"k{place}" for place in range(len(spec.joins))]
        wanted = [{"n": n, **dict(zip(names, keys, strict=True))} for n, keys in sought.values()]
        if len(parents) > bound or len(encode_bson({"k": wanted})) > KEY_BYTES:
            raise FieldFailure(
                f"where.{condition.path}: the collections compare texts by different collations,"
                " and too many documents would have to be compared; narrow the other conditions",
                "collation-differs",
            )
        if not wanted:
            return MATCH_NOTHING
        lookup: Document = {
            "from": spec.place[1],
            "localField": "sought.k0",
            "foreignField": spec.joins[0].target,
            "let": {f"k{n}": f"$sought.{name}" for n, name in enumerate(names[1:])},
            "pipeline": [*match_others(spec.joins[1:]), *selecting, {"$limit": 1}],
            "as": "found",
        }
        results = await run.aggregate(
            self.fetch,
            [
                {"$limit": 1},
                {"$project": {"_id": 0, "sought": {"$literal": wanted}}},
                {"$unwind": "$sought"},
                {"$lookup": lookup},
                {"$match": {"found": {"$not": {"$size": 0}}}},
                {"$project": {"n": "$sought.n"}},
            ],
            len(wanted),
            place=spec.place,
        )
        with reading_reply():
            matched = [id_ for result in results for id_ in ids[result["n"]]]
        return {"_id": {"$in": matched}} if matched else MATCH_NOTHING
