"""The command `docgraph`: one file per command, imported when it is called for.

Exit codes: 0 done, 1 a failure, 2 usage or configuration. Only `serve` and what was asked for
write to stdout; notices and errors go to stderr.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

import click

from docgraph.cli.signals import end_start_by_signals
from docgraph.cli.stdio import replace_closed_streams
from docgraph.cli.terminal import notice, report_failure
from docgraph.exchange import StartupError

__all__ = ["main"]

# Each is a module of this package with a command of the same name.
COMMANDS = (
    "serve",
    "demo",
    "apps",
    "explain",
    "streams",
    "mcp",
    "users",
    "acl",
    "access",
    "config",
    "plugins",
    "mongod",
    "version",
)
SERVERS = ("serve", "demo")


class _Commands(click.Group):
    """Knows the names of its commands, and imports one only to run or describe it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from docgraph.cli.extra import list_plugin_commands

        try:
            found = list_plugin_commands()
            for name in sorted(set(found) & set(COMMANDS)):
                notice(f"the command {name!r} of a plugin can never be run: docgraph has its own")
            return [*COMMANDS, *(one for one in found if one not in COMMANDS)]
        except StartupError as error:  # help has to be there when something is broken
            notice(f"the commands of plugins are left out: {error.message}")
            return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            from docgraph.cli.extra import find_plugin_command

            return find_plugin_command(cmd_name)
        command: click.Command = getattr(import_module(f"docgraph.cli.{cmd_name}"), cmd_name)
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
def docgraph() -> None:
    """GraphQL APIs over MongoDB by declaration."""


def main() -> None:
    """Run the command line; every failure is one clear message and an exit code."""
    replace_closed_streams()
    if sys.argv[1:2] and sys.argv[1] in SERVERS:
        end_start_by_signals()
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
    finally:
        gc.freeze()  # the process ends: nobody needs a last look for garbage among all objects
