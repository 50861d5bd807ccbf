"""`docgraph doctor`: whether a server can work with this configuration, and what to fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from docgraph.cli.options import configured
from docgraph.cli.terminal import escape_unprintable, print_table
from docgraph.config import ConfigSources
from docgraph.exchange.program import name_commands

if TYPE_CHECKING:
    from docgraph.store.diagnostics import Diagnosis


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def doctor(sources: ConfigSources, as_json: bool) -> None:
    """Check the configuration and the database, and print what to do.

    Checks certificate, address, login, rights, version, members, clock, fast path, JSON lane,
    indexes, passwords and stored apps, and changes nothing. The exit code is 1 if something is
    wrong, and 0 if there is only advice.
    """
    from docgraph.cli.doctor.examine import examine
    from docgraph.store.diagnostics import CheckState

    findings = examine(sources)
    if as_json:
        print_table([_describe(finding) for finding in findings], as_json=True)
    else:
        for finding in _join_skipped(findings):
            for line in _render(finding):
                click.echo(escape_unprintable(line, ascii))
    sys.exit(1 if any(finding.state is CheckState.WRONG for finding in findings) else 0)


def _join_skipped(findings: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    """Yield the findings, and one for all checks that were skipped, which have the same reason."""
    from docgraph.store.diagnostics import CheckState

    skipped = [finding for finding in findings if finding.state is CheckState.SKIPPED]
    yield from (finding for finding in findings if finding.state is not CheckState.SKIPPED)
    if skipped:
        names = ", ".join(finding.check for finding in skipped)
        yield replace(skipped[0], check="", found=f"{names}: {skipped[0].found}")


def _render(finding: Diagnosis) -> Iterator[str]:
    yield f"{finding.state:<8} {finding.check:<14} {finding.found}"
    for detail in finding.details:
        yield f"{'':<26}{detail}"
    if finding.advice:
        yield f"{'':<24}→ {name_commands(finding.advice)}"


def _describe(finding: Diagnosis) -> dict[str, Any]:
    return {
        "check": finding.check,
        "state": str(finding.state),
        "found": finding.found,
        "details": list(finding.details),
        "advice": finding.advice,
    }
