"""Advice on apps: sample every collection that they name, explain every query.

All steps share one time budget. The report names what was skipped for lack of time or permission.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Final

from docgraph import Deadline, DocgraphError, StoreUnavailable
from docgraph.tools.apps import AggregationMapping, App, Graphql
from docgraph.tools.data import (
    CollectionName,
    Inventory,
    Listed,
    RowFilter,
    Store,
    StoreDenied,
    find_references,
    flatten_stages,
)
from docgraph_workbench.advise.accesses import OPTIONAL, Access, find_accesses, find_paths
from docgraph_workbench.advise.advice import Advice, AdviceReport, NewIndex, Weight
from docgraph_workbench.advise.collection_sample import CollectionSample, inspect_values
from docgraph_workbench.advise.data_findings import (
    advise_missing,
    advise_problem,
    compare_relations,
    compare_types,
    find_secrets,
    find_unlimited,
    find_unseen,
    is_unseen,
)
from docgraph_workbench.advise.declared_types import Holding, find_holdings
from docgraph_workbench.advise.index_serving import Serving, Unserved, find_unserved_rows
from docgraph_workbench.advise.index_uses import find_uses
from docgraph_workbench.advise.missing_indexes import advise_rejection, combine, find_idle
from docgraph_workbench.advise.planned_queries import PlannedQuery, find_questions
from docgraph_workbench.infer.survey import MAX_SECONDS, Budget, RunAside, run_here

_SAMPLING_SHARE: Final = 0.6  # of the time
_LIST_MS: Final = 6_000
_GLANCE_MS: Final = 1_000
_MAX_VIEWS: Final = 20  # on top of each other, as in the database


@dataclass(frozen=True, slots=True)
class AdviceScope:
    """How much to inspect; `is_all`: there are no other apps, so unused indexes are reported.

    `is_open` says whether anonymous callers may query an app, `on_progress` receives the progress,
    `rows` are the row filters of rules. `may_read` checks permissions for the source of a view.
    """

    sample: int = 1_000
    seconds: float = MAX_SECONDS
    is_all: bool = False
    is_open: Callable[[App], Awaitable[bool | None]] | None = None
    on_progress: Callable[[int, int, str], None] = lambda number, total, name: None
    run: RunAside = run_here
    rows: Sequence[RowFilter] = ()
    may_read: Callable[[CollectionName], Awaitable[bool]] | None = None


async def advise_rows(store: Store, scope: AdviceScope) -> AdviceReport:
    """Return the indexes that the row filters of the scope need; nothing is changed."""
    adviser = _Adviser(store, Graphql(), (), scope)
    await adviser.advise_rows()
    return adviser.report


async def advise(
    store: Store, settings: Graphql, apps: Sequence[App], scope: AdviceScope
) -> AdviceReport:
    """Return what could be better about these apps; nothing is changed."""
    return await _Adviser(store, settings, apps, scope).advise()


@dataclass
class _Adviser:
    store: Store
    settings: Graphql
    apps: Sequence[App]
    scope: AdviceScope
    report: AdviceReport = field(init=False)

    def __post_init__(self) -> None:
        self.report = AdviceReport([str(app.definition.id) for app in self.apps])
        self._budget = Budget(self.scope.seconds)
        self._sampling = Budget(self.scope.seconds * _SAMPLING_SHARE)
        self._accesses = [access for app in self.apps for access in find_accesses(app)]
        self._holdings = find_holdings(self._accesses)
        self._samples: dict[CollectionName, CollectionSample] = {}

    async def advise(self) -> AdviceReport:
        """Return all findings."""
        await self._inspect_data()
        serving = Serving(self.store, self.settings.default_limit)
        questions = await self.scope.run(lambda: list(self._find_questions()))
        plausible = await self.scope.run(lambda: list(filter(self._is_plausible, questions)))
        # Queries that are always sent come first.
        plausible.sort(key=lambda question: bool(question.options))
        unserved = await self._find_unserved(serving, plausible)
        await self._combine([*unserved, *find_unserved_rows(self.scope.rows, self._samples)])
        await self.scope.run(self._compare)
        await self._check_exposure()
        if self.scope.is_all:
            await self._find_idle(serving, questions)
        return self.report

    async def advise_rows(self) -> None:
        """Collect the findings on the row filters alone."""
        await self._inspect_data()
        # All other advice on collections concerns apps.
        self.report.advice = [
            finding for finding in self.report.advice if finding.kind == "not-looked-at"
        ]
        await self._combine(list(find_unserved_rows(self.scope.rows, self._samples)))

    async def _combine(self, unserved: Sequence[Unserved]) -> None:
        advice, indexes = await self.scope.run(lambda: combine(unserved, self._samples))
        self.report.indexes += indexes
        self._add(advice)

    def _add(self, advice: Iterable[Advice]) -> None:
        self.report.advice += advice

    async def _inspect_data(self) -> None:
        rows = () if self.apps else (row.place for row in self.scope.rows)
        places = list(dict.fromkeys((*_find_places(self._accesses), *rows)))
        self.report.collections = len(places)
        listed: dict[str, dict[str, Listed] | None] = {}
        for number, place in enumerate(places):
            db = place[0]
            if db not in listed:
                listed[db] = await self._list(db)
            if self._budget.left <= 0:
                self._record_left(".".join(skipped) for skipped in places[number:])
                return
            self.scope.on_progress(number, len(places), ".".join(place))
            names = listed[db]
            listing = Listed(place[1]) if names is None else names.get(place[1])
            holdings = self._holdings.get(place, [])
            sample = await inspect_values(
                self.store,
                place,
                listing,
                sample=self.scope.sample,
                deadline=self._sampling.share(len(places) - number),
                hold=partial(_hold, holdings),
                run=self.scope.run,
            )
            self._samples[place] = sample
            self._add([finding async for finding in self._check_values(sample)])
            if (
                sample.base is not None
                and sample.base not in places
                and await self._may_read(sample)
            ):
                places.append(sample.base)  # its indexes serve the view

    async def _may_read(self, view: CollectionSample) -> bool:
        may_read = self.scope.may_read
        return may_read is None or (view.base is not None and await may_read(view.base))

    async def _list(self, db: str) -> dict[str, Listed] | None:
        try:
            collections = await Inventory(self.store).list_collections(
                db, Deadline.after_ms(_LIST_MS)
            )
        except StoreUnavailable:
            raise
        except DocgraphError:
            return None  # each collection reports whether it can be read
        return {collection.name: collection for collection in collections}

    async def _check_values(self, sample: CollectionSample) -> Any:
        if sample.listed is None and await self.store.stats.exists(*sample.place) is not None:
            for app in self.apps:
                places = list(_name_uses(self._accesses, app, sample.place))
                if places:
                    yield advise_missing(str(app.definition.id), places, sample)
        elif sample.listed is None:
            yield advise_problem(sample, "it is not there, or may not be seen")
        elif sample.problem:
            yield advise_problem(sample, sample.problem)
        elif sample.is_view and (sample.base is None or not await self._may_read(sample)):
            what = f"{sample.name} is a view: whether indexes serve it was not looked at"
            source = sample.listed.source if self.scope.may_read is None else "its source"
            hint = f"begin its stages with a $match that an index of {source} serves"
            yield Advice(Weight.NOTE, "not-looked-at", what, hint=hint, collection=sample.name)
        elif not sample.profile.documents:
            what = f"{sample.name} has no documents to compare with what is declared"
            yield Advice(Weight.NOTE, "empty-collection", what, collection=sample.name)
        elif not sample.is_fair:
            what = f"sampling {sample.name} took too long, so only its first documents were read"
            yield Advice(Weight.NOTE, "not-looked-at", what, collection=sample.name)

    def _record_left(self, what: Iterable[str]) -> None:
        names = list(dict.fromkeys(what))
        shown = ", ".join(names[:10]) + (" …" if len(names) > 10 else "")  # noqa: PLR2004
        text = f"left out, as there was no time: {shown}"
        hint = "name fewer apps, or take a smaller sample"
        self._add([Advice(Weight.WARNING, "not-looked-at", text, hint=hint)])

    def _guess(self, place: CollectionName, path: str) -> Any:
        sample = self._samples.get(place)
        return None if sample is None else sample.guess(path)

    def _find_questions(self) -> Iterator[PlannedQuery]:
        for access in self._accesses:
            for question in find_questions(access, self._guess):
                if isinstance(question, PlannedQuery):
                    yield self._follow_view(question)
                    continue
                what = f"its query could not be made up: {question.message}"
                place = ".".join(access.place)
                note = (Weight.NOTE, "not-looked-at", what, access.app_id, access.where)
                self._add([Advice(*note, collection=place)])

    def _follow_view(self, question: PlannedQuery) -> PlannedQuery:
        """Return the query that the database makes of one on a view: on its source."""
        for _ in range(_MAX_VIEWS):
            sample = self._samples.get(question.place)
            if sample is None or sample.listed is None or sample.base not in self._samples:
                break
            conditions = [stage["$match"] for stage in sample.listed.stages if "$match" in stage]
            joined = (
                {"$and": [*conditions, question.filter]}
                if question.filter
                else {"$and": conditions}
            )
            question = replace(
                question, place=sample.base, filter=joined if conditions else question.filter
            )
        return question

    def _is_plausible(self, question: PlannedQuery) -> bool:
        """Return whether all properties of the query occur in the sample."""
        sample = self._samples.get(question.place)
        paths = (*find_paths(question.filter), *question.sort)
        return sample is None or not any(is_unseen(path, sample) for path in paths)

    async def _find_unserved(
        self, serving: Serving, questions: Sequence[PlannedQuery]
    ) -> list[Unserved]:
        """Return the queries that no index serves; each collection has an equal share of the time.

        Queries of a collection that has used up its share come last.
        """
        unserved: list[Unserved] = []
        refused: set[CollectionName] = set()
        told: set[Hashable] = set()
        left: list[PlannedQuery] = []
        spent: Counter[CollectionName] = Counter()
        share = self._budget.left * 1000 / max(1, len({question.place for question in questions}))
        queue = deque((question, share) for question in questions)
        while queue:
            question, most = queue.popleft()
            sample = self._samples.get(question.place)
            if sample is None or question.place in refused:
                continue
            if not (sample.is_indexed or sample.is_series):
                continue  # queries on it cannot be compared with its indexes
            if self._budget.left <= 0:
                left.append(question)
            elif spent[question.place] > most:
                queue.append((question, inf))
            else:
                began = self._budget.left
                finding = await self._check_query(serving, question, sample, refused)
                spent[question.place] += int((began - self._budget.left) * 1000)
                if finding is not None and told.isdisjoint(_name_finding(finding)):
                    told.update(_name_finding(finding))
                    unserved.append(finding)
        if left:
            self._record_left(f"{question.access.app_id}: {question.where}" for question in left)
        return unserved

    async def _check_query(
        self,
        serving: Serving,
        question: PlannedQuery,
        sample: CollectionSample,
        refused: set[CollectionName],
    ) -> Unserved | None:
        try:
            return await serving.check(question, sample)
        except StoreUnavailable:
            raise
        except StoreDenied as error:
            refused.add(question.place)
            self._add([advise_problem(sample, error.message)])
        except DocgraphError as error:
            self._add_refusal(*advise_rejection(question, error.message))
        return None

    def _add_refusal(self, advice: Advice, index: NewIndex | None) -> None:
        self._add([advice])
        if index is None:
            return
        indexes = self.report.indexes
        same = next((existing for existing in indexes if existing.command == index.command), None)
        if same is None:
            indexes.append(index)
        else:
            serves = dict.fromkeys((*same.serves, *index.serves))
            indexes[indexes.index(same)] = replace(same, serves=tuple(serves))

    def _compare(self) -> None:
        parents: dict[tuple[str, str], list[CollectionSample]] = {}
        for holding, sample in self._list_held():
            key = str(holding.app.definition.id), holding.type_name
            if sample.is_view and key in parents:
                continue  # already compared
            findings = compare_types(holding, sample)
            reported = {
                (finding.kind, finding.app, finding.where, finding.collection)
                for finding in self.report.advice
            }
            # the same type of the same collection may be reached by several fields
            self._add(
                finding
                for finding in findings
                if (finding.kind, finding.app, finding.where, finding.collection) not in reported
            )
            parents.setdefault(key, []).append(sample)
        for access in self._accesses:
            target = self._samples.get(access.place)
            if target is not None and not target.problem:
                self._add(find_unseen(access, target))
            above = parents.get((access.app_id, access.type_name), ())
            self._add(compare_relations(access, above, self._samples))

    def _list_held(self) -> list[tuple[Holding, CollectionSample]]:
        """Return the compared types with the sampled collections; views last."""
        held = [
            (holding, sample)
            for place, holdings in self._holdings.items()
            if (sample := self._samples.get(place)) is not None and not sample.problem
            for holding in holdings
        ]
        return sorted(held, key=lambda pair: pair[1].is_view)

    async def _check_exposure(self) -> None:
        for access in self._accesses:
            self._add(find_unlimited(access, self._samples.get(access.place), self.settings))
        for app in self.apps:
            find = partial(find_secrets, app, self._samples)
            secrets = await self.scope.run(lambda find=find: list(find(is_open=None)))  # type: ignore[misc]
            if secrets and self.scope.is_open is not None and await self.scope.is_open(app):
                secrets = list(find(is_open=True))
            self._add(secrets)

    async def _find_idle(self, serving: Serving, questions: Sequence[PlannedQuery]) -> None:
        for place, sample in self._samples.items():
            if not sample.is_indexed or len(sample.indexes) < 2:  # noqa: PLR2004 - `_id_` and others
                continue
            named = {
                path
                for access in self._accesses
                if access.place == place
                for template in access.mapping.templates
                for path in find_paths(template.source)
            }
            named |= {
                path
                for question in questions
                if question.place == place
                for path in question.filter
            }
            rows = (row.filter for row in self.scope.rows if row.place == place)
            named |= {path for row_filter in rows for path in find_paths(row_filter)}
            uses = await find_uses(self.store, place, Deadline.after_ms(_GLANCE_MS))
            self._add(find_idle(sample, named, serving.used.get(place, set()), uses))


def find_places(app: App) -> set[CollectionName]:
    """Return the collections that an app reads."""
    return set(_find_places(find_accesses(app)))


def _find_places(accesses: Iterable[Access]) -> Iterator[CollectionName]:
    for access in accesses:
        yield access.place
        mapping = access.mapping
        if isinstance(mapping, AggregationMapping):
            stages = flatten_stages(mapping.stages.source, OPTIONAL)
            for reference in find_references(stages, mapping.db):
                yield reference.db, reference.collection


def _hold(holdings: Sequence[Holding], documents: Sequence[dict[str, Any]]) -> None:
    for holding in holdings:
        holding.add_all(documents)


def _name_finding(finding: Unserved) -> list[Hashable]:
    """Return a key that is equal for other arguments of the same field: report it once."""
    place = (finding.question.access, finding.question.part)
    return [(place, finding.what), *([(place, finding.wants)] if finding.wants else [])]


def _name_uses(accesses: Iterable[Access], app: App, place: CollectionName) -> Iterator[str]:
    """Yield the paths in a definition that name a collection."""
    for access in accesses:
        if access.app is app and place in set(_find_places([access])):
            yield f"{access.where}.{'collection' if access.place == place else 'stages'}"
