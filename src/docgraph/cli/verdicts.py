"""Verdicts on commands: the database's explain in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from docgraph.graphql.execute.cost_estimate import CostEstimate
from docgraph.store.driver.explain_recorder import Sent
from docgraph.store.query_plan import Execution

_FEW: Final = 1_000  # documents that are scanned in a negligible time
_WASTE: Final = 10  # examined documents per returned one


@dataclass(frozen=True, slots=True)
class CommandVerdict:
    """A command, its cost, and a verdict; `advice` is the index that would help."""

    sent: Sent
    is_good: bool
    verdict: str
    advice: str = ""

    def describe(self) -> str:
        """Return the figures in a line."""
        sent, took = self.sent, self.sent.execution
        index = ", ".join(took.plan.indexes) or "no index"
        return (
            f"{sent.field}: {sent.kind} {sent.namespace}: {index}, {took.keys} keys and "
            f"{took.documents} documents examined, {took.returned} returned, "
            f"{took.milliseconds} ms"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        sent = self.sent
        content = {
            "field": sent.field,
            "kind": sent.kind,
            "collection": sent.namespace,
            **sent.execution.as_dict(),
            "good": self.is_good,
            "verdict": self.verdict,
        }
        return content | ({"createIndex": self.advice} if self.advice else {})


def check_commands(sent: Sequence[Sent], outlook: CostEstimate) -> list[CommandVerdict]:
    """Return a verdict on each command, with the index that its field needs."""
    wanted = {
        one.field: one.as_dict(privileged=True).get("createIndex", "") for one in outlook.fetches
    }
    return [_check_plan(one, wanted.get(one.field, "")) for one in sent]


def _check_plan(sent: Sent, wanted: str) -> CommandVerdict:
    took = sent.execution
    if took.plan.is_scan and took.documents <= took.returned:
        return CommandVerdict(sent, True, "good: only returned documents are examined")
    if took.plan.is_scan:
        few = took.documents <= _FEW
        growing = ": that is little now, and grows with the collection" if few else ""
        what = f"goes through {took.documents} documents to return {took.returned}"
        return CommandVerdict(sent, few, f"{'fine' if few else 'slow'}: {what}{growing}", wanted)
    if not took.plan.is_known:
        return CommandVerdict(sent, True, "unknown: the database does not report how it finds them")
    if took.plan.is_empty:
        return CommandVerdict(sent, True, "good: nothing to examine: does the collection exist?")
    if took.documents > max(took.returned, 1) * _WASTE and took.documents > _FEW:
        if sent.kind == "aggregate" and not wanted:  # groups are fewer than their input
            made = f"{took.returned} results are made of {took.documents} documents"
            return CommandVerdict(sent, True, f"good: {made} that the index leads to")
        what = f"leads to {took.documents} documents, of which {took.returned} are returned"
        return CommandVerdict(sent, False, f"wasteful: the index {what}", wanted)
    if took.plan.sorts:
        few = took.documents <= _FEW
        text = f"{took.documents} documents are sorted in memory: no index gives the order"
        return CommandVerdict(sent, few, f"{'fine' if few else 'slow'}: {text}", wanted)
    return CommandVerdict(sent, True, f"good: {_praise(took)}")


def _praise(took: Execution) -> str:
    if not took.documents and took.returned:
        return "the index contains everything that is returned"
    return "the index leads to what is returned"
