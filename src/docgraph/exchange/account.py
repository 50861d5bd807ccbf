"""Account: the authenticated user of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Account:
    """An authenticated user; an anonymous caller is `None`.

    `properties` are the values of `@user`: the user document, the file entry or the claims, never a
    password. `kind` is the source of the account (`identity`, `database`, `file`, `jwt`).
    `expires_at` is when its credentials expire, in seconds since the epoch; None: never.
    """

    name: str
    roles: tuple[str, ...] = ()
    properties: Mapping[str, Any] = field(default_factory=dict)
    kind: str = "identity"
    expires_at: float | None = field(default=None, compare=False)
