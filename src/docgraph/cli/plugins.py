"""`docgraph plugins`: which plugins are loaded, from where, enabled or not."""

from __future__ import annotations

import click

from docgraph.cli.options import configured, prepare_sources
from docgraph.cli.terminal import print_table
from docgraph.config import ConfigSources
from docgraph.plugins import is_enabled


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
@configured
def plugins(sources: ConfigSources, as_json: bool) -> None:
    """List the plugins: name, kind, enabled or not, origin."""

    prepared = prepare_sources(sources)
    rows = [
        {
            "name": one.name,
            "kind": str(one.plugin.kind),
            "enabled": is_enabled(one, prepared.config.sections),
            "origin": one.origin,
            "description": one.plugin.description,
        }
        for one in sorted(prepared.found, key=lambda one: (one.plugin.kind, one.name))
    ]
    print_table(rows, as_json=as_json)
