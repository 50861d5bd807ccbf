"""`docgraph doctor`: whether everything is there for a server to work, and what to do if not."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.options import configured
from docgraph.cli.terminal import print_table
from docgraph.config import Sources

if TYPE_CHECKING:
    from docgraph.store.checkup import Finding

__all__ = ["doctor"]


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def doctor(sources: Sources, as_json: bool) -> None:
    """Check the configuration and the database, and say what to do.

    Looks at address, login, rights, version, members, clock and indexes, and changes nothing. The
    exit code is 1 if something is wrong, and 0 if there is only advice.
    """
    from docgraph.cli.examine import examine
    from docgraph.store.checkup import State

    findings = examine(sources)
    if as_json:
        print_table([_describe(one) for one in findings], as_json=True)
    else:
        for one in findings:
            click.echo(f"{one.state:<8} {one.check:<14} {one.found}")
            for detail in one.details:
                click.echo(f"{'':<26}{detail}")
            if one.advice:
                click.echo(f"{'':<24}→ {one.advice}")
    sys.exit(1 if any(one.state is State.WRONG for one in findings) else 0)


def _describe(finding: Finding) -> dict[str, Any]:
    return {
        "check": finding.check,
        "state": str(finding.state),
        "found": finding.found,
        "details": list(finding.details),
        "advice": finding.advice,
    }
