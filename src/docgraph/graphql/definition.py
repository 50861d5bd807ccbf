"""The app definition as it is stored: decoded, its keys unescaped, its parts told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["AppDefinition", "Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning: its place in the document, what is wrong, the way out."""

    where: str
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


@dataclass(frozen=True, slots=True)
class AppDefinition:
    """One app; `problems` are the wrong shapes found while decoding."""

    id: Any
    uri: str  # without leading and trailing slash
    enabled: bool
    description: str
    schema: str
    mappings: Mapping[str, Any]
    limits: Mapping[str, Any]
    descriptor: Mapping[str, Any]
    version: str  # the etag, or a digest of the document without one
    problems: tuple[Finding, ...] = field(default=())
