"""Indexes for the row filters of rules, held against those of the collections."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from docgraph.graphql.advise.accesses import RuleAccess
from docgraph.graphql.advise.data import is_unseen
from docgraph.graphql.advise.findings import Weight
from docgraph.graphql.advise.look import Look, Place
from docgraph.graphql.advise.questions import Question
from docgraph.graphql.advise.serving import FEW, Unserved
from docgraph.graphql.advise.wants import find_wants
from docgraph.store.guard.row_indexes import RowFilter, find_unindexed

__all__ = ["find_unserved_rows"]


def find_unserved_rows(
    rows: Iterable[RowFilter], looks: Mapping[Place, Look]
) -> Iterator[Unserved]:
    """The row filters by which requests go through rows that are not the caller's."""
    for row in rows:
        look = looks.get(row.place)
        if look is None or not look.is_indexed or (look.documents or 0) < FEW:
            continue
        missing = find_unindexed(row.filter, look.plain_indexes)
        if not missing or any(is_unseen(path, look) for _, paths in missing for path in paths):
            continue
        wants = tuple(
            replace(want, ranges=())
            for branch, _ in missing
            for want in find_wants(branch, {}, look.find_array)
        )
        names = ", and none with ".join(" or ".join(paths) for _, paths in missing)
        what = (
            f"no index of {look.name} begins with {names}: requests under this row filter may go "
            f"through all {look.documents} documents"
        )
        question = Question(RuleAccess(row.rule), row.place, row.filter, part=row.part)
        yield Unserved(question, Weight.WARNING, "no-row-filter-index", what, wants)
