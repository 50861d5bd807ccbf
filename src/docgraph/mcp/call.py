"""One request of an agent on its way to a tool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.exchange import Exchange

__all__ = ["Call"]


@dataclass(slots=True)
class Call:
    """The exchange that it came by, and what of it the protocol's library does not keep exact.

    `arguments` are those of the tool as they were written (no digit lost); None: as the library
    has read them. `failure` is a fault of ours, for the pipeline to tell.
    """

    exchange: Exchange
    arguments: Mapping[str, Any] | None = None
    failure: Exception | None = field(default=None, repr=False)

    def fail(self, error: Exception) -> None:
        """Something went wrong that no tool has words for."""
        self.failure = error
