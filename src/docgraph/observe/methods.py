"""HTTP methods that metrics and traces distinguish; all other methods are grouped."""

from __future__ import annotations

from typing import Final

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
