"""The methods that are told apart; any other word that a caller sends in their place is not."""

from __future__ import annotations

from typing import Final

__all__ = ["METHODS"]

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
