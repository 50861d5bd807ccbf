"""Stored aggregations and streams: check them with the database when they are written.

No stream is opened and nothing stored is read. The database explains the stages with several values
for each variable, and runs them over one sample event of each kind. A stage whose constants could
exhaust the database is never tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any, Final

from docgraph.codec import as_meant
from docgraph.codec.bson_types import Regex
from docgraph.exchange import Document
from docgraph.exchange.errors import (
    DefinitionError,
    NotSupported,
    QueryError,
    StoreError,
    StoreRejected,
    StoreUnavailable,
)
from docgraph.rest.aggregation_variables import build_sample_scope
from docgraph.rest.call import RestCall
from docgraph.rest.pipelines import UncheckedPart, find_unchecked
from docgraph.rest.stream_definitions import list_stages
from docgraph.store.driver.stage_trials import build_events
from docgraph.store.guard.references import CollectionReference
from docgraph.store.trials import CANNOT_RUN, CHECK_ARGUMENTS, Trials
from docgraph.variables import REST, StagePart, Template, UnknownOperator, compile_template

_CORNERS: Final = [[0, 0], [0, 1], [1, 1], [0, 0]]
_POLYGON: Final = {"type": "Polygon", "coordinates": [_CORNERS]}
# The values of a variable: one of them works wherever any value could.
_VALUES: Final[tuple[Any, ...]] = (
    *(None, "text", 1, [], {}),
    *(datetime(2020, 1, 1), [1, 0], Regex("x"), _POLYGON),
)
_MAX_COMBINED: Final = 2  # variables of a stage of which all combinations are tried
_MAX_STAGES: Final = 200  # of all streams of a collection

_NO_SAMPLES: Final = (
    "streams: the stages were not tried with sample events, which needs MongoDB 6.0 or newer"
)
_TOO_MANY: Final = f"streams: only the first {_MAX_STAGES} stages were tried"
_FAILS: Final = (
    "listeners get an error instead of such an event; match on operationType first, or use $ifNull"
)
_KEEP_ID: Final = 'keep it, such as by {"$mergeObjects": ["$fullDocument", {"_id": "$_id"}]}'


@dataclass(frozen=True, slots=True)
class _StageTrial:
    """A stage, its location, and the forms that values of its variables give it."""

    stream: int
    where: str
    template: Template
    is_filter: bool = False  # of a snapshot: it is for documents, not for events

    def render(self, *, is_mixed: bool = False) -> list[Document]:
        """Return the stage with the same value for all variables, or all combinations."""
        names = sorted(self.template.names)
        if not names:
            return [*self.template.source]
        count = len(names)
        same = ([value] * count for value in _VALUES)
        chosen = product(_VALUES, repeat=count) if is_mixed else same
        return [stage for values in chosen for stage in self._render(names, values)]

    def _render(self, names: Sequence[str], values: Sequence[Any]) -> list[Document]:
        try:
            rendered = self.template.render(
                build_sample_scope(dict(zip(names, values, strict=True)))
            )
        except (QueryError, StoreError):
            return []  # the variable cannot have this value here
        return [*rendered]


async def check_streams(call: RestCall, properties: Mapping[str, Any]) -> list[str]:
    """Reject streams that cannot work; return warnings about events for which a stage fails."""

    def build() -> list[_StageTrial]:
        return list(_list_trials(as_meant(properties).get("streams")))

    if not properties.get("streams"):
        return []
    checks = _StreamChecks(call.context.store.trials, call.db, call.collection)
    warnings = await checks.check_source()
    trials: list[_StageTrial] = await call.request.offload(build)
    return [*warnings, *await checks.try_all(trials)]


def _list_trials(entries: Any) -> Iterator[_StageTrial]:
    for index, entry in enumerate(entries):
        name = f"streams[{index}] '{entry['uri']}'"
        for where, stage in list_stages(entry["stages"]):
            template = compile_template([stage], vocabulary=REST, context="stages")
            yield _StageTrial(index, f"{name}.{where}", template)
        filter = (entry.get("snapshot") or {}).get("filter")
        if filter:
            template = compile_template([{"$match": filter}], vocabulary=REST, context="stages")
            yield _StageTrial(index, f"{name}.snapshot.filter", template, is_filter=True)


@dataclass(frozen=True, slots=True)
class _StreamChecks:
    """The checks of the streams of one collection."""

    trials: Trials
    db: str
    collection: str

    @property
    def place(self) -> tuple[str, str]:
        return self.db, self.collection

    async def check_source(self) -> list[str]:
        """Reject a view or time series; warn where the database opens no stream for docgraph."""
        try:
            await self.trials.check_stream(self.place)
        except NotSupported as error:
            return [f"streams: {error.message}; {error.hint}"]
        except StoreRejected as error:
            raise DefinitionError(
                "streams: views and time series have no change streams",
                hint="define the stream at the collection that the view reads",
            ) from error
        except StoreUnavailable:
            raise
        except StoreError as error:
            return [f"streams: the database opens no change stream here: {error.message}"]
        return []

    async def try_all(self, trials: Sequence[_StageTrial]) -> list[str]:
        """Reject stages that cannot run; return the warnings."""
        warnings = [_TOO_MANY] if len(trials) > _MAX_STAGES else []
        can_run = await self.trials.can_run(self.place)
        stream, events = -1, []
        for trial in trials[:_MAX_STAGES]:
            if trial.stream != stream:
                stream, events = trial.stream, build_events(self.db, self.collection)
            forms = await self._find_forms(trial)
            if can_run and forms and not trial.is_filter:
                events, failing = await self._run(trial, forms, events)
                if failing:
                    warnings.append(f"{trial.where}: fails for {', '.join(failing)}; {_FAILS}")
        return warnings if can_run else [*warnings, _NO_SAMPLES]

    async def _find_forms(self, trial: _StageTrial) -> list[Document]:
        """Return the forms of the stage that the database accepts; reject a stage without any."""
        count = len(trial.template.names)
        if not count and not trial.is_filter:
            return trial.render()  # `check_operators` has tried it
        for is_mixed in (False, True) if count == _MAX_COMBINED else (False,):
            forms = trial.render(is_mixed=is_mixed)
            refused = set(await self.trials.find_refused(forms, self.place))
            if accepted := [form for number, form in enumerate(forms) if number not in refused]:
                return accepted
        if count <= _MAX_COMBINED:
            raise DefinitionError(f"{trial.where}: {CANNOT_RUN}", hint=CHECK_ARGUMENTS)
        return []

    async def _run(
        self, trial: _StageTrial, forms: Sequence[Document], events: list[Document]
    ) -> tuple[list[Document], list[str]]:
        """Return the events after the stage, and the kinds of those for which every form fails."""
        best: tuple[Document, list[Document]] | None = None
        failing = events
        for form in forms:
            results, failed = await self._run_form(form, events)
            _check_ids(trial.where, results, events)
            failing = [event for event in failing if event in failed]
            if best is None or len(results) > len(best[1]):
                best = form, results
            if not failing:
                break
        assert best is not None  # noqa: S101 - there is a form
        return await self._choose(best, events), [
            _KINDS[event["_id"]["_data"]] for event in failing
        ]

    async def _run_form(
        self, form: Document, events: list[Document]
    ) -> tuple[list[Document], list[Document]]:
        """Return the results of the stage, and the events for which it fails."""
        results = await self.trials.run_over(form, events, self.place)
        if results is not None:
            return results, []
        results, failed = [], []
        for event in events:
            result = await self.trials.run_over(form, [event], self.place)
            failed += [event] if result is None else []
            results += result or []
        return results, failed

    async def _choose(
        self, best: tuple[Document, list[Document]], events: list[Document]
    ) -> list[Document]:
        """Return the events for the next stage; a `$match` would remove most samples."""
        form, results = best
        condition = form.get("$match", {}).get("operationType")
        if not results and condition is not None:
            stage = {"$match": {"operationType": condition}}
            results = await self.trials.run_over(stage, events, self.place) or []
        return results or events


_KINDS: Final = {event["_id"]["_data"]: event["operationType"] for event in build_events("", "")}


def _check_ids(where: str, results: Sequence[Document], events: Sequence[Document]) -> None:
    ids = [event["_id"] for event in events]
    if any(result.get("_id") not in ids for result in results):
        raise DefinitionError(
            f"{where}: changes or removes the _id of an event, its resume token", hint=_KEEP_ID
        )


async def check_operators(call: RestCall, properties: Mapping[str, Any]) -> None:
    """Reject operators that neither docgraph nor the database knows, and stages that cannot run."""
    place, trials = (call.db, call.collection), call.context.store.trials
    stages: dict[str, Mapping[str, Any]] = {}
    for unchecked in await _find_unchecked(call, properties):
        match unchecked.what:
            case UnknownOperator(name=name, kind=kind, hint=hint):
                if await trials.refuses_operator(name, kind, place):
                    raise DefinitionError(
                        f"{unchecked.where}: MongoDB has no operator {name}", hint=hint
                    )
            case StagePart(stage=stage):
                stages[unchecked.where] = stage
    for number in await trials.find_refused([*stages.values()], place):
        raise DefinitionError(f"{[*stages][number]}: {CANNOT_RUN}", hint=CHECK_ARGUMENTS)


async def _find_unchecked(call: RestCall, properties: Mapping[str, Any]) -> list[UncheckedPart]:
    names = [name for name in ("aggrs", "streams") if properties.get(name)]
    if not names:
        return []

    def find() -> list[UncheckedPart]:
        meant = as_meant({name: properties[name] for name in names})
        return [part for name in names for part in find_unchecked(meant[name], name, db=call.db)]

    unchecked: list[UncheckedPart] = await call.request.offload(find)
    return unchecked


async def find_doubtful(call: RestCall, properties: Mapping[str, Any]) -> list[str]:
    """Return warnings about operators that only the database knows and missing collections."""
    warnings: list[str] = []
    for unchecked in await _find_unchecked(call, properties):
        what = unchecked.what
        if isinstance(what, UnknownOperator):
            text = f"docgraph does not know {what.name}, but this database does"
            warnings.append(f"{unchecked.where}: {text}")
        elif isinstance(what, CollectionReference) and (
            await call.context.store.stats.exists(what.db, what.collection) is False
        ):
            warnings.append(
                f"{unchecked.where}: there is no collection {what.db}.{what.collection}"
            )
    return warnings
