"""The metadata of a package that other files hold: its authors, addresses and long description."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.readme import render_for_index
from tools.release import read_release


class ReleaseHook(MetadataHookInterface):
    """Fills in what the project declares as dynamic, when its metadata is asked for."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Take authors and addresses of `release.toml`, and the README as an index shows it."""
        release = read_release()
        metadata["authors"] = [release.author]
        metadata["urls"] = release.urls
        if "readme" in metadata["dynamic"]:
            text = Path(self.root, "README.md").read_text(encoding="utf-8")
            metadata["readme"] = {"content-type": "text/markdown", "text": render_for_index(text)}
