"""Console files: what the build has written.

Only files that the manifest of the build names are ever read: no path is built from caller input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from docgraph.exchange.headers import parse_weight

STATIC: Final = Path(__file__).with_name("static")
_CODINGS: Final = {"br": ".br", "gzip": ".gz"}  # the smaller one first
_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}


class Manifest(msgspec.Struct, frozen=True):
    """The build's description of its files."""

    script: str
    style: str
    preload: tuple[str, ...]
    files: frozenset[str]


@dataclass(frozen=True, slots=True)
class Variant:
    """A file in one coding; the coding of the plain one is empty."""

    content: bytes
    media_type: str
    coding: str


@dataclass
class Site:
    """The files in a directory. Its methods read the disk: call them in a thread."""

    directory: Path
    _stamp: float = 0.0
    _manifest: Manifest | None = None
    _read: dict[tuple[str, str], Variant] = field(default_factory=dict)

    def find_manifest(self) -> Manifest | None:
        """Return the current build, also while the server runs; None if there is none."""
        path = self.directory / "manifest.json"
        try:
            stamp = path.stat().st_mtime
            if stamp != self._stamp:
                self._manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
                self._stamp = stamp
                self._read.clear()
        except FileNotFoundError:
            self._manifest, self._stamp = None, 0.0
        return self._manifest

    def read(self, name: str, coding: str) -> Variant | None:
        """Return a file in a coding; None if the build has no file of that name."""
        known = self._read.get((name, coding))
        if known is not None:
            return known
        manifest = self._manifest or self.find_manifest()
        if manifest is None or name not in manifest.files:
            manifest = self.find_manifest()  # it may have been built again
        if manifest is None or name not in manifest.files:
            return None
        path = self.directory / f"{name}{_CODINGS.get(coding, '')}"
        media_type = _TYPES.get(Path(name).suffix, "application/octet-stream")
        try:
            variant = Variant(path.read_bytes(), media_type, coding)
        except FileNotFoundError:  # replaced by a build at this moment
            return None
        self._read[name, coding] = variant
        return variant


@lru_cache(maxsize=256)
def choose_coding(accept_encoding: str) -> str:
    """Return the best of our codings by the caller's preference, then by size; empty for none."""
    weights: Mapping[str, float] = dict(map(parse_weight, accept_encoding.split(",")))
    others = weights.get("*", 0.0)
    best = max(_CODINGS, key=lambda coding: weights.get(coding, others))
    return best if weights.get(best, others) > 0 else ""
