"""What only the database knows of stored aggregations: operators, stages, and what they join."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docgraph.codec import as_meant
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.bodies.pipelines import find_doubts
from docgraph.rest.call import Call
from docgraph.store.facts import CANNOT_RUN, CHECK_ARGUMENTS
from docgraph.store.guard.references import Reference
from docgraph.variables import ConstantPart, UnknownOperator

__all__ = ["check_operators", "find_doubtful"]


async def check_operators(call: Call, properties: Mapping[str, Any]) -> None:
    """Refuse operators that neither docgraph nor the database knows, and stages it cannot run."""
    place, facts = (call.db, call.collection), call.context.store.facts
    stages: dict[str, Mapping[str, Any]] = {}
    for doubt in find_doubts(as_meant(properties).get("aggrs"), db=call.db):
        match doubt.what:
            case UnknownOperator(name=name, kind=kind, hint=hint):
                if await facts.refuses_operator(name, kind, place):
                    raise DefinitionError(
                        f"{doubt.where}: MongoDB has no operator {name}", hint=hint
                    )
            case ConstantPart(stage=stage):
                stages[doubt.where] = stage
    for number in await facts.find_refused([*stages.values()], place):
        raise DefinitionError(f"{[*stages][number]}: {CANNOT_RUN}", hint=CHECK_ARGUMENTS)


async def find_doubtful(call: Call, properties: Mapping[str, Any]) -> list[str]:
    """Warnings of operators that only the database knows, and of collections that are missing."""
    warnings: list[str] = []
    for doubt in find_doubts(as_meant(properties).get("aggrs"), db=call.db):
        what = doubt.what
        if isinstance(what, UnknownOperator):
            text = f"docgraph does not know {what.name}, but this database does"
            warnings.append(f"{doubt.where}: {text}")
        elif isinstance(what, Reference) and (
            await call.context.store.facts.exists(what.db, what.collection) is False
        ):
            warnings.append(f"{doubt.where}: there is no collection {what.db}.{what.collection}")
    return warnings
