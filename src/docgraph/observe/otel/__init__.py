"""OpenTelemetry export (OTLP): traces and metrics, built from the same events as the log.

Modules of this package import the libraries of the extra `otel`. They are imported only by `load`,
when they are needed: a server that sends nothing does not even load them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from docgraph.exchange.errors import StartupError
from docgraph.observe.sections import Otel

__all__ = ["is_wanted", "load"]


def is_wanted(options: Otel) -> bool:
    """Return whether anything is sent; the environment can turn off what the options turn on."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return options.enabled and not is_disabled


def load(name: str) -> Any:
    """Import a module of this package; if the libraries are missing, report what to install."""
    try:
        return import_module(f"docgraph.observe.otel.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "docgraph":
            raise
        raise StartupError(
            f"traces and metrics by OTLP need the package {error.name!r}, which is not installed",
            hint="pip install 'docgraph[otel]', or turn off otel",
        ) from error
