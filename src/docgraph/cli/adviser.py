"""Adviser: the part of an installed package that gives advice on apps and rules by their data.

`apps check --live` needs it; `apps apply` and `acl check` say more if there is one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from docgraph.plugins.packages import ADVISERS, find_part, load_part

if TYPE_CHECKING:
    from docgraph.exchange import Document
    from docgraph.graphql.sections import Graphql
    from docgraph.server.app import Docgraph
    from docgraph.store.guard.row_filters import RowFilter

_NAME = "data"


class DataFinding(Protocol):
    """A piece of advice: its path in a definition or rule, what is wrong, and what to do."""

    @property
    def where(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def hint(self) -> str: ...

    def as_dict(self) -> dict[str, Any]:
        """Return the finding, ready for JSON."""


class DataReport(Protocol):
    """All findings of a check."""

    @property
    def is_serious(self) -> bool:
        """Whether anything is more than a note."""

    def find(self, app: str) -> Sequence[DataFinding]:
        """Return the findings on an app, or on collections as a whole."""


class Adviser(Protocol):
    """Gives advice; nothing is changed."""

    async def advise_apps(
        self, app: Docgraph, settings: Graphql, documents: Sequence[Document], *, is_all: bool
    ) -> DataReport:
        """Return advice on valid definitions; `is_all`: there are no other apps."""

    async def print_summary(
        self, app: Docgraph, settings: Graphql, documents: Sequence[Document]
    ) -> None:
        """Print one line if a quick check finds advice; never a reason to fail."""

    async def advise_rows(self, app: Docgraph, rows: Sequence[RowFilter]) -> Sequence[DataFinding]:
        """Return advice on the indexes for row filters."""

    def print_report(self, report: Any, told: Collection[str] = ()) -> None:
        """Print every finding, except for those of kinds that were already told elsewhere."""


def load_adviser() -> Adviser:
    adviser: Adviser = load_part(ADVISERS, _NAME)()
    return adviser


def find_adviser() -> Adviser | None:
    return None if find_part(ADVISERS, _NAME) is None else load_adviser()
