"""What the log is asked for: `logging`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from docgraph.config.section import Milliseconds, Section, Size

__all__ = ["Logging"]


class Logging(Section, frozen=True):
    """What is logged to stderr, and how."""

    section_name: ClassVar[str] = "logging"
    level: Annotated[
        Literal["debug", "info", "warning", "error"], Meta(description="least severity logged")
    ] = "info"
    format: Annotated[
        Literal["auto", "console", "json"],
        Meta(
            description="`console` for people, `json` for machines, one line each; `auto` is "
            "`console` on a terminal and `json` elsewhere"
        ),
    ] = "auto"
    requests: Annotated[bool, Meta(description="log one line per request")] = True
    requests_exclude_patterns: Annotated[
        tuple[str, ...],
        Meta(
            description="paths whose requests are logged once per interval only; `*` stands for "
            "any text"
        ),
    ] = ()
    requests_exclude_interval_ms: Annotated[
        Milliseconds,
        Meta(description="interval for excluded paths; 0 logs only the first request"),
    ] = 600_000
    slow_operation_ms: Annotated[
        Milliseconds,
        Meta(
            description="GraphQL operations that take so long are logged with their commands "
            "(`slow-operation`); 0 logs none"
        ),
    ] = 1000
    max_field_size: Annotated[
        Size, Meta(description="longest value in a log line; the rest is cut")
    ] = 1024
