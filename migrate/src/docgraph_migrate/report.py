"""The report of a migration: three lists of differences, and those that the operator accepted."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import click

from docgraph.tools.commands import notice, print_json


class ReportList(Enum):
    """The list that a difference belongs to, in the order of the report."""

    LESS = "less is protected than before"
    MORE = "more is refused than before"
    ANSWERS = "answers differ"
    KEPT = "the same as before"  # not printed: it names an option that keeps the old behavior


@dataclass(frozen=True, slots=True)
class Remark:
    """One line of the report.

    `code` names the kind of difference. `needs` is the option that keeps the old behavior, such as
    `graphql.serve-by-id`.
    """

    effect: ReportList
    code: str
    where: str
    what: str
    remedy: str
    example: str = ""
    needs: str = ""

    @property
    def id(self) -> str:
        """The name for `--accept`; the same in every run."""
        where = re.sub(r"\s+", "_", self.where)
        return f"{self.code}:{where}"


def find_open(remarks: Iterable[Remark], accepted: Collection[str]) -> list[Remark]:
    """Return the lines of the first list that were not accepted."""
    return [
        remark
        for remark in remarks
        if remark.effect is ReportList.LESS and remark.id not in accepted
    ]


def check_accepted(remarks: Iterable[Remark], accepted: Collection[str]) -> None:
    """Raise a usage error for accepted names that the first list does not have."""
    listed = {remark.id for remark in remarks if remark.effect is ReportList.LESS}
    unknown = sorted(set(accepted) - listed)
    if unknown:
        names = f"it has {', '.join(sorted(listed))}" if listed else "it is empty"
        raise click.UsageError(f"--accept {unknown[0]}: the first list does not have it; {names}")


def print_report(remarks: Sequence[Remark], accepted: Collection[str], *, as_json: bool) -> None:
    """Print the three lists in their order."""
    lists = [effect for effect in ReportList if effect is not ReportList.KEPT]
    if as_json:
        rows = [
            {
                "list": effect.value,
                "id": remark.id,
                "where": remark.where,
                "what": remark.what,
                "example": remark.example,
                "remedy": remark.remedy,
                "accepted": remark.id in accepted,
            }
            for effect in lists
            for remark in remarks
            if remark.effect is effect
        ]
        print_json(rows)
        return
    for line in _list_lines(remarks, accepted, lists):
        click.echo(line)


def _list_lines(
    remarks: Sequence[Remark], accepted: Collection[str], lists: Sequence[ReportList]
) -> Iterator[str]:
    for effect in lists:
        listed = [remark for remark in remarks if remark.effect is effect]
        yield f"{effect.value.capitalize()}: {len(listed) or 'nothing'}"
        for remark in listed:
            mark = " (accepted)" if remark.id in accepted else ""
            yield f"  {remark.where}: {remark.what}{mark}"
            if remark.example:
                yield f"    example: {remark.example}"
            yield f"    remedy: {remark.remedy}"
            if effect is ReportList.LESS and not mark:
                yield f"    accept: --accept '{remark.id}'"
        yield ""


def explain_open(open_remarks: Sequence[Remark]) -> None:
    """Say on stderr what is left to accept."""
    notice(f"{len(open_remarks)} lines of the first list are not accepted:")
    for remark in open_remarks:
        notice(f"  --accept '{remark.id}'")
