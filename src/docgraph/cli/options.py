"""Input that several commands share: options, the configuration, passwords and tokens.

The set of options depends on everything that can be imported, so only commands that run read it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from docgraph.exchange import StartupError

if TYPE_CHECKING:
    from docgraph.config import ConfigSources
    from docgraph.server.prepare import LoadedConfiguration


_F = TypeVar("_F", bound=Callable[..., Any])

_PATH = click.Path(path_type=Path)
_MAX_PORT = 65535


class _Port(click.IntRange):
    """A port, with one message for everything else."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            message = f"{value!r} is not a port: give a number from {self.min} to {_MAX_PORT}"
            raise click.BadParameter(message, ctx, param) from None


def configured(command: _F) -> Callable[..., Any]:
    """Add `--config`, `-o`, `--set` and `--data`; the command gets them as one `ConfigSources`."""

    @click.option("-c", "--config", type=_PATH, help="Configuration file (or DOCGRAPH_CONFIG).")
    @click.option("-o", "--overrides", type=_PATH, help="File with overrides.")
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="/PATH=VALUE",
        help="Set one option, for example /graphql/max-limit=500.",
    )
    @click.option(
        "--data", type=_PATH, help="Directory of the embedded MongoDB (/core/data-directory)."
    )
    @wraps(command)
    def with_sources(
        config: Path | None,
        overrides: Path | None,
        settings: tuple[str, ...],
        data: Path | None,
        **others: Any,
    ) -> Any:
        return command(read_sources(config, overrides, settings, data), **others)

    return with_sources


def read_sources(
    config: Path | None, overrides: Path | None, settings: tuple[str, ...], data: Path | None
) -> ConfigSources:
    """Return the sources of the configuration that the options name."""
    from docgraph.config import ConfigSources

    if data is not None:
        settings = (*settings, f"/core/data-directory={json.dumps(str(data))}")
    return ConfigSources(config, overrides, settings)


def mongo_port(command: _F) -> Callable[..., Any]:
    """Add `--mongo-port` to a command that is `configured`."""

    @click.option(
        "--mongo-port",
        type=_Port(1, _MAX_PORT),
        metavar="PORT",
        help="Port of the embedded MongoDB (/core/embedded-port).",
    )
    @wraps(command)
    def with_mongo_port(sources: ConfigSources, mongo_port: int | None, **others: Any) -> Any:
        return command(_add_setting(sources, "/core/embedded-port", mongo_port), **others)

    return with_mongo_port


def listening(command: _F) -> Callable[..., Any]:
    """Add `--port` and `--mongo-port` to a command that is `configured`."""

    @click.option(
        "--port",
        type=_Port(0, _MAX_PORT),
        metavar="PORT",
        help="Port of the server (/http-listener/port); 0 uses a free one.",
    )
    @wraps(command)
    def with_port(sources: ConfigSources, port: int | None, **others: Any) -> Any:
        return command(_add_setting(sources, "/http-listener/port", port), **others)

    return mongo_port(with_port)


def _add_setting(sources: ConfigSources, path: str, value: int | None) -> ConfigSources:
    if value is None:
        return sources
    return replace(sources, settings=(*sources.settings, f"{path}={value}"))


def prepare_sources(sources: ConfigSources) -> LoadedConfiguration:
    """Return the decoded configuration and the available plugins."""
    from docgraph.server.prepare import load_tree, prepare

    return prepare(load_tree(sources))


_MAX_BYTES = 4096
_STDIN = Path("-")
SECRET_FILE = click.Path(path_type=Path, allow_dash=True, dir_okay=False)

password_file_option = click.option(
    "--password-file",
    type=SECRET_FILE,
    help="Read the password from the first line of a file; - for stdin.",
)


def is_typed(file: Path | None) -> bool:
    """Return whether the secret will be typed: then check everything else first."""
    return file is None and sys.stdin.isatty()


def read_secret(file: Path | None, name: str = "password", *, is_new: bool = False) -> str:
    """Return the secret from a file, from stdin, or typed, twice if it is new.

    Passwords and tokens are typed without echo. They are never an argument, which every user of the
    machine can see.
    """
    if is_typed(file):
        typed: str = click.prompt(
            name.capitalize(), hide_input=True, confirmation_prompt=is_new, err=True
        )
        return typed
    try:
        if file is None or file == _STDIN:
            data = sys.stdin.buffer.read(_MAX_BYTES)
        else:
            with file.open("rb") as source:
                data = source.read(_MAX_BYTES)
        secret = data.decode().split("\n", 1)[0].removesuffix("\r")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise StartupError(f"the {name} cannot be read: {reason}") from error
    if not secret:
        raise StartupError(f"the {name} is empty", hint="it is the first line of the input")
    return secret
