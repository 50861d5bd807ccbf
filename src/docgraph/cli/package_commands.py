"""Groups of commands whose members may come from installed packages, loaded when they are used."""

from __future__ import annotations

import click

from docgraph.plugins.packages import COMMANDS, KNOWN, MissingPackage, list_parts, load_part


class PackageGroup(click.Group):
    """A group to which packages add commands: `apps.infer` is the command `infer` of `apps`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands that can be run."""
        prefix = f"{self.name}."
        added = {
            part.removeprefix(prefix) for part in list_parts(COMMANDS) if part.startswith(prefix)
        }
        return sorted(added.union(self.commands))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command; one that names the package, if it is not installed."""
        registered, name = super().get_command(ctx, cmd_name), f"{self.name}.{cmd_name}"
        if registered is not None:
            return registered
        if name in list_parts(COMMANDS):
            command: click.Command = load_part(COMMANDS, name)
            return command
        return build_missing(name) if (COMMANDS, name) in KNOWN else None


def build_missing(name: str) -> click.Command:
    """Return a command that says which package it needs, whatever its arguments are."""

    def fail(arguments: tuple[str, ...]) -> None:
        raise MissingPackage(COMMANDS, name)

    return click.Command(
        name.rpartition(".")[2],
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        callback=fail,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True},
        hidden=True,
    )
