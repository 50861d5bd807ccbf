"""What several commands share: the options for the configuration, and reading it.

What can be configured is told by everything there is to import; so only commands that run do it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from docgraph.config import Sources
    from docgraph.server.prepare import Prepared

__all__ = ["configured", "prepare_sources"]

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
        from docgraph.config import Sources

        return command(Sources(config, overrides, settings), **others)

    return with_sources


def prepare_sources(sources: Sources) -> Prepared:
    """The configuration, decoded, and the plugins there are."""
    from docgraph.server.prepare import load_tree, prepare

    return prepare(load_tree(sources))
