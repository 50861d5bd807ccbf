"""Stored aggregations and streams: check operators, stages and collections with the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.codec import as_meant
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.bodies.pipelines import Doubt, find_doubts
from docgraph.rest.call import RestCall
from docgraph.store.collection_stats import CANNOT_RUN, CHECK_ARGUMENTS
from docgraph.store.guard.references import CollectionReference
from docgraph.variables import StagePart, UnknownOperator

__all__ = ["check_operators", "find_doubtful"]


async def check_operators(call: RestCall, properties: Mapping[str, Any]) -> None:
    """Reject operators that neither docgraph nor the database knows, and stages that cannot run."""
    place, facts = (call.db, call.collection), call.context.store.facts
    stages: dict[str, Mapping[str, Any]] = {}
    for doubt in await _find_doubts(call, properties):
        match doubt.what:
            case UnknownOperator(name=name, kind=kind, hint=hint):
                if await facts.refuses_operator(name, kind, place):
                    raise DefinitionError(
                        f"{doubt.where}: MongoDB has no operator {name}", hint=hint
                    )
            case StagePart(stage=stage):
                stages[doubt.where] = stage
    for number in await facts.find_refused([*stages.values()], place):
        raise DefinitionError(f"{[*stages][number]}: {CANNOT_RUN}", hint=CHECK_ARGUMENTS)


async def _find_doubts(call: RestCall, properties: Mapping[str, Any]) -> list[Doubt]:
    names = [name for name in ("aggrs", "streams") if properties.get(name)]
    if not names:
        return []

    def find() -> list[Doubt]:
        meant = as_meant({name: properties[name] for name in names})
        return [doubt for name in names for doubt in find_doubts(meant[name], name, db=call.db)]

    found: list[Doubt] = await call.request.offload(find)
    return found


async def find_doubtful(call: RestCall, properties: Mapping[str, Any]) -> list[str]:
    """Return warnings about operators that only the database knows and missing collections."""
    warnings: list[str] = []
    for doubt in await _find_doubts(call, properties):
        what = doubt.what
        if isinstance(what, UnknownOperator):
            text = f"docgraph does not know {what.name}, but this database does"
            warnings.append(f"{doubt.where}: {text}")
        elif isinstance(what, CollectionReference) and (
            await call.context.store.facts.exists(what.db, what.collection) is False
        ):
            warnings.append(f"{doubt.where}: there is no collection {what.db}.{what.collection}")
    return warnings
