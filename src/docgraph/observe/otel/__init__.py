"""Traces and metrics for a collector of OpenTelemetry, by OTLP: made of the events and the numbers
that log and metrics are made of.

Modules of this package import the libraries of the extra `otel`, and nobody imports them but by
`load`, when they are wanted: a server that sends nothing does not even load them.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from docgraph.exchange.errors import StartupError
from docgraph.observe.sections import Otel

__all__ = ["is_wanted", "load"]


def is_wanted(options: Otel) -> bool:
    """Whether anything is sent; the environment can turn off what the configuration turns on."""
    is_disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return options.enabled and not is_disabled


def load(name: str) -> Any:
    """A module of this package; without the libraries, a start that ends with what to install."""
    try:
        return import_module(f"docgraph.observe.otel.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "docgraph":
            raise
        raise StartupError(
            f"traces and metrics by OTLP need the package {error.name!r}, which is not installed",
            hint="pip install 'docgraph[otel]', or turn off otel",
        ) from error
