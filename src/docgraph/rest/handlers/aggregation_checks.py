"""Stored aggregations and streams: check operators, stages and collections with the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.codec import as_meant
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.bodies.pipelines import UncheckedPart, find_unchecked
from docgraph.rest.call import RestCall
from docgraph.store.collection_stats import CANNOT_RUN, CHECK_ARGUMENTS
from docgraph.store.guard.references import CollectionReference
from docgraph.variables import StagePart, UnknownOperator


async def check_operators(call: RestCall, properties: Mapping[str, Any]) -> None:
    """Reject operators that neither docgraph nor the database knows, and stages that cannot run."""
    place, facts = (call.db, call.collection), call.context.store.facts
    stages: dict[str, Mapping[str, Any]] = {}
    for unchecked in await _find_unchecked(call, properties):
        match unchecked.what:
            case UnknownOperator(name=name, kind=kind, hint=hint):
                if await facts.refuses_operator(name, kind, place):
                    raise DefinitionError(
                        f"{unchecked.where}: MongoDB has no operator {name}", hint=hint
                    )
            case StagePart(stage=stage):
                stages[unchecked.where] = stage
    for number in await facts.find_refused([*stages.values()], place):
        raise DefinitionError(f"{[*stages][number]}: {CANNOT_RUN}", hint=CHECK_ARGUMENTS)


async def _find_unchecked(call: RestCall, properties: Mapping[str, Any]) -> list[UncheckedPart]:
    names = [name for name in ("aggrs", "streams") if properties.get(name)]
    if not names:
        return []

    def find() -> list[UncheckedPart]:
        meant = as_meant({name: properties[name] for name in names})
        return [part for name in names for part in find_unchecked(meant[name], name, db=call.db)]

    found: list[UncheckedPart] = await call.request.offload(find)
    return found


async def find_doubtful(call: RestCall, properties: Mapping[str, Any]) -> list[str]:
    """Return warnings about operators that only the database knows and missing collections."""
    warnings: list[str] = []
    for unchecked in await _find_unchecked(call, properties):
        what = unchecked.what
        if isinstance(what, UnknownOperator):
            text = f"docgraph does not know {what.name}, but this database does"
            warnings.append(f"{unchecked.where}: {text}")
        elif isinstance(what, CollectionReference) and (
            await call.context.store.facts.exists(what.db, what.collection) is False
        ):
            warnings.append(
                f"{unchecked.where}: there is no collection {what.db}.{what.collection}"
            )
    return warnings
