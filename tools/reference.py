"""The reference page of all options, rendered from the sections.

Written to `docs/reference/configuration.md` by `python tools/reference.py`; a test keeps the
committed page up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import inspect

from docgraph.config.options import Option, describe_kind, is_secret, options_of
from docgraph.config.render import render_value
from docgraph.config.section import Section
from docgraph.server.prepare import SECTIONS

__all__ = ["render"]

_HEAD: Final = """\
# Configuration

<!-- Rendered by `python tools/reference.py`; do not edit. -->

The configuration is a YAML 1.2 file with one section per part. Values come from these sources, each
of which wins over the ones before it:

1. the built-in defaults below,
2. the file named by `--config` or `DOCGRAPH_CONFIG`, else `docgraph.yml` in the working directory
   if it is there,
3. the overrides file named by `-o`: YAML or JSON, nested or with paths as keys
   (`/graphql/max-limit: 500`), or a `.conf` file in the grammar of the next line,
4. the variable `DOCGRAPH_OVERRIDES`: `/graphql/max-limit -> 500; /core/name -> "x"`,
5. `--set /graphql/max-limit=500` on the command line, as often as needed.

In a path, list indexes count from 1: `/mongo/mongo-mounts[1]/where`. Mappings of two sources are
joined; lists and single values are replaced. `docgraph config template` prints a file of every
option, `docgraph config show` the effective values and where each comes from, `docgraph config
check FILE` all mistakes of a file.

Sizes are bytes, or texts such as `64 KiB`, `1 MiB` and `10 MB`. Relative paths in a file are
relative to that file; in a variable or on the command line, to the working directory.
`core.plugins-directory` and every `conf-file` are relative to the configuration file. Options
marked *secret* are never printed.

Variables of the environment that begin with `DOCGRAPH_` and are not known give a warning; one that
looks like a misspelt name of ours stops the start.

Where a section is off by default, options of it without `enabled` give a warning; `enabled: false`
says that it is meant.

Plugins that do not come with docgraph bring sections of their own, in which `enabled`, and for
services `uri` and `secured`, are always understood.
"""


def render(sections: Mapping[str, type[Section]] = SECTIONS) -> str:
    """The page as Markdown."""
    lines = [_HEAD]
    for name, section in sections.items():
        summary = (section.__doc__ or "").strip().splitlines()[0]
        lines.append(f"## `{name}`\n\n{summary}\n")
        lines.append("| Option | Value | Default | Meaning |\n|---|---|---|---|")
        lines.extend(_render_rows(section, ""))
        lines.append("")
    return "\n".join(lines)


def _render_rows(struct: type[msgspec.Struct], prefix: str) -> Iterator[str]:
    for option in options_of(struct).values():
        if option.struct is not None:
            yield from _render_rows(option.struct, f"{prefix}{option.name}.")
            continue
        meaning = option.description
        if is_secret(option.name, option.extra) and not isinstance(option.kind, inspect.BoolType):
            meaning += " (*secret*)"
        cells = (f"`{prefix}{option.name}`", _value(option), _default(option), meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _value(option: Option) -> str:
    return describe_kind(option.kind, option.extra) + _range(option.kind)


def _range(kind: inspect.Type) -> str:
    low: Any = getattr(kind, "ge", None)
    high: Any = getattr(kind, "le", None)
    return "" if low is None or high is None else f", {low} to {high}"


def _default(option: Option) -> str:
    if option.default is None:
        return "none"
    return f"`{render_value(msgspec.to_builtins(option.default))}`"


if __name__ == "__main__":
    sys.stdout.write(render())
