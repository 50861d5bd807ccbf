"""`docgraph apps test`; its help needs nothing of what runs the cases."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write JUnit XML, too."
)
def test(directory: Path, junit: Path | None) -> None:
    """Run the test cases of DIRECTORY/tests on an embedded MongoDB.

    The apps are those in DIRECTORY, with its documents and its docgraph.yml. A file of cases is a
    list in YAML; a case has `name`, `query`, `variables`, `as` and `expect`. Exit code 1 when a
    case fails, 2 when the cases could not be run.
    """
    from docgraph.testing.cases import run_cases

    sys.exit(1 if run_cases(directory, junit) else 0)
