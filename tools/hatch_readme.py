"""The long description of a package is the README, as an index shows it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.readme import render_for_index


class ReadmeHook(MetadataHookInterface):
    """Fills it in when the metadata of the project is asked for."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Take the README of the root."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": render_for_index(text)}
