"""Packages contain the console: it is built where it is not, and without it there is no package."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.console import BUILT, CannotBuildError, build_console


class ConsoleHook(BuildHookInterface[Any]):
    """Runs before a wheel or a source package is made; an editable install needs nothing."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the console unless it is there."""
        if version == "editable" or BUILT.is_file():
            return
        try:
            with TemporaryDirectory() as directory:
                build_console(node_directory=Path(directory))
        except CannotBuildError as error:
            raise SystemExit(
                "a package of docgraph contains the console, which cannot be built here: "
                f"{error}\nBuild it with Node 20.19 or newer (`make console`), then try again."
            ) from error
