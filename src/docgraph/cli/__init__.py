"""Command line `docgraph`: modules of commands, imported when one is run.

Exit codes: 0 success, 1 failure, 2 usage or configuration. Only `serve` and requested output write
to stdout; notices and errors go to stderr.

Help, completion and versions are fast: only what they print is imported for them.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

import click

from docgraph import __version__
from docgraph.cli.process import (
    OutputError,
    end_start_by_signals,
    end_start_with_terminal,
    guard_streams,
    leave,
    prepare_to_leave,
)
from docgraph.cli.terminal import notice, report_failure

if TYPE_CHECKING:
    from docgraph.exchange import StartupError

__all__ = ["main"]

# A command keeps what it reads, such as compiled definitions, until it ends: to search for garbage
# as often as Python does by default is a third of the time of a long one.
_COLLECT_AFTER = (50_000, 20, 100)

# Each is a module of this package with a command of the same name, whose help begins with this.
COMMANDS = {
    "serve": "Serve until SIGTERM or Ctrl-C.",
    "demo": "Serve a sample blog on an embedded MongoDB.",
    "apps": "Apply, check and inspect GraphQL app definitions.",
    "explain": "Run QUERY against the stored APP (its uri) and print its plan and commands.",
    "top": "Show the commands that the database executes for GraphQL operations.",
    "streams": "Follow the change streams of collections.",
    "mcp": "Offer the apps to an agent on stdin and stdout, under the rules of a user.",
    "users": "Add, list, change and remove the users of dbRealmAuthenticator.",
    "keys": "Make, list, rotate and revoke API keys, the credentials of machines.",
    "acl": "Add, list, check and remove permission rules.",
    "access": "Explain what callers may do and see.",
    "export": "Write apps, users, rules, properties and JSON schemas into files of a DIRECTORY.",
    "import": "Store the files that `docgraph export` wrote into a DIRECTORY.",
    "migrate": "Move an installation of another server to docgraph.",
    "config": "Show, check and create configurations.",
    "doctor": "Check the configuration and the database, and print what to do.",
    "plugins": "List the plugins: name, kind, enabled or not, origin.",
    "mongod": "Run the embedded MongoDB alone, until SIGTERM or Ctrl-C.",
    "completion": "Print a script for shell completion of commands, options and names.",
    "examples": "List the examples, or copy the one with this NAME into DIRECTORY, and load it.",
    "version": "Print the version of docgraph and of Python.",
}
# Commands whose name cannot be a module, or that share a module.
PLACES = {
    "export": ("transfer", "export"),
    "import": ("transfer", "import_"),
    "mongod": ("serve", "mongod"),
    "top": ("explain", "top"),
    "version": ("plugins", "version"),
}
# Commands that are packages of their own: entry points of the group `docgraph.commands`.
PACKAGED = ("migrate",)
SERVERS = ("serve", "demo")


class _Commands(click.Group):
    """Has the name and help of each command, and imports one only to run or complete it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from docgraph.cli.plugins import list_packaged_commands, list_plugin_commands

        missing = set(PACKAGED).difference(list_packaged_commands())
        names = [name for name in COMMANDS if name not in missing]
        try:
            added = list_plugin_commands()
        except _startup_error() as error:  # help must work when something is broken
            notice(f"the commands of plugins are left out: {error.message}")
            return names
        for name in sorted(COMMANDS.keys() & set(added)):
            notice(f"the command {name!r} of a plugin can never be run: docgraph has its own")
        return [*names, *(name for name in added if name not in COMMANDS)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            return click.Command(cmd_name, help=COMMANDS[cmd_name])
        from docgraph.cli.plugins import find_plugin_command

        return find_plugin_command(cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            name, command, rest = super().resolve_command(ctx, args)
        except click.UsageError as error:
            meant = _suggest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{error.message}{meant}", ctx) from None
        if name in PACKAGED:
            from docgraph.plugins import packages

            command = packages.load_part(packages.COMMANDS, name)
        elif name in COMMANDS:
            module, attribute = PLACES.get(name, (name, name))
            command = getattr(import_module(f"docgraph.cli.{module}"), attribute)
        return name, command, rest


def _suggest(word: str, commands: Sequence[str]) -> str:
    """Return the command that was probably meant, for the end of an error message."""
    from difflib import get_close_matches

    matches = get_close_matches(word, commands, n=1)
    return f" Did you mean '{matches[0]}'?" if matches else ""


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="docgraph %(version)s")
def docgraph() -> None:
    """GraphQL APIs over MongoDB by declaration."""


def main() -> None:
    """Run the command line; every failure is one clear message and an exit code."""
    prepare_to_leave()
    is_server = sys.argv[1:2] != [] and sys.argv[1] in SERVERS
    guard_streams(is_server=is_server or sys.argv[1:2] == ["mongod"])
    if is_server:
        end_start_by_signals()
        end_start_with_terminal()  # before the imports of the command, which take a second
    else:
        gc.set_threshold(*_COLLECT_AFTER)
    try:
        docgraph.main(prog_name="docgraph", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as stop:
        if is_server and isinstance(stop.code, int):
            leave(stop.code)
        raise
    except OutputError as error:
        if not error.is_quiet:
            notice(f"docgraph: {error}")
        sys.exit(1)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(1)
    except _startup_error() as error:
        sys.exit(report_failure(error))
    finally:
        gc.freeze()  # the process ends: a last garbage collection would be wasted


def _startup_error() -> type[StartupError]:
    """Return the error that stops a command; imported only when something failed."""
    from docgraph.exchange import StartupError

    return StartupError
