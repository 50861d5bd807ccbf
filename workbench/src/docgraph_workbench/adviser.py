"""Adviser: advice on data for `apps check --live`, `apps apply` and `acl check`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from docgraph import Document
    from docgraph.tools.apps import Graphql
    from docgraph.tools.data import RowFilter
    from docgraph.tools.installation import Docgraph
    from docgraph_workbench.advise.advice import Advice, AdviceReport

_SAMPLE: Final = 100
_SECONDS: Final = 20.0


class DataAdviser:
    """Gives advice; the command `apps advise` has the same findings."""

    async def advise_apps(
        self, app: Docgraph, settings: Graphql, documents: Sequence[Document], *, is_all: bool
    ) -> AdviceReport:
        """Return advice on valid definitions; `is_all`: there are no other apps."""
        from docgraph.tools.commands import Definitions
        from docgraph_workbench.commands.advise import find_advice

        return await find_advice(Definitions(app, settings), documents, is_all=is_all)

    async def print_summary(
        self, app: Docgraph, settings: Graphql, documents: Sequence[Document]
    ) -> None:
        """Print one line if a quick check finds advice; never a reason to fail."""
        from docgraph.tools.commands import Definitions
        from docgraph_workbench.commands.advise import print_advice

        await print_advice(Definitions(app, settings), documents)

    async def advise_rows(self, app: Docgraph, rows: Sequence[RowFilter]) -> Sequence[Advice]:
        """Return advice on the indexes for row filters."""
        from docgraph_workbench.advise.advise import AdviceScope, advise_rows

        scope = AdviceScope(_SAMPLE, _SECONDS, rows=rows, run=asyncio.to_thread)
        return (await advise_rows(app.store, scope)).advice

    def print_report(self, report: AdviceReport, told: Collection[str] = ()) -> None:
        """Print every finding, except for those of kinds that were already told elsewhere."""
        from docgraph_workbench.commands.advise import print_report

        print_report(report, told)
