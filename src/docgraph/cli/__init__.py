"""The command `docgraph`: one file per command.

Exit codes: 0 done, 1 a failure, 2 usage or configuration. Only `serve` and what was asked for
write to stdout; notices and errors go to stderr.
"""

from __future__ import annotations

import sys

import click

from docgraph.cli.access import access
from docgraph.cli.apps import apps
from docgraph.cli.config import config
from docgraph.cli.demo import demo
from docgraph.cli.explain import explain
from docgraph.cli.mongod import mongod
from docgraph.cli.plugins import plugins
from docgraph.cli.serve import serve
from docgraph.cli.terminal import report_failure
from docgraph.cli.users import users
from docgraph.cli.version import version
from docgraph.exchange import StartupError

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def docgraph() -> None:
    """GraphQL APIs over MongoDB by declaration."""


for command in (serve, demo, apps, explain, users, access, config, plugins, mongod, version):
    docgraph.add_command(command)


def main() -> None:
    """Run the command line; every failure is one clear message and an exit code."""
    try:
        docgraph.main(prog_name="docgraph", standalone_mode=False)
    except StartupError as error:
        sys.exit(report_failure(error))
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(1)
