"""Who is calling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Account"]


@dataclass(frozen=True, slots=True)
class Account:
    """A known caller; an anonymous one is `None`.

    `properties` is what `@user` shows: the user document, the file entry or the claims, never a
    password. `kind` says where the account comes from (`identity`, `database`, `file`, `jwt`).
    """

    name: str
    roles: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "identity"
