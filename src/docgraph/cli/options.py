"""Options that several commands share: where the configuration comes from."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from docgraph.config import Sources

__all__ = ["configured"]

_F = TypeVar("_F", bound=Callable[..., Any])

_PATH = click.Path(path_type=Path)


def configured(command: _F) -> Callable[..., Any]:
    """Add `--config`, `-o` and `--set`; the command receives them as one `Sources`."""

    @click.option("-c", "--config", type=_PATH, help="Configuration file (or DOCGRAPH_CONFIG).")
    @click.option("-o", "--overrides", type=_PATH, help="File with overrides.")
    @click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="/PATH=VALUE",
        help="Set one option, for example /graphql/max-limit=500.",
    )
    @wraps(command)
    def with_sources(
        config: Path | None, overrides: Path | None, settings: tuple[str, ...], **others: Any
    ) -> Any:
        return command(Sources(config, overrides, settings), **others)

    return with_sources
