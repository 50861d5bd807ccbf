"""Configuration file template: every option with description and default, commented out.

The file is valid unchanged and sets nothing; it remains valid when the `#` of any line is removed.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from docgraph.config.options import Option, options_of
from docgraph.config.render import render_value
from docgraph.config.section import Section

_HEAD: Final = """\
# docgraph configuration
#
# Every option with its default. Remove the '#' before an option to set it. Values may also come
# from an overrides file (-o), from DOCGRAPH_OVERRIDES, and from --set on the command line, each of
# which wins over the ones before it. Sizes are bytes, or texts such as '64 KiB' and '1 MiB'.
"""
MINIMAL_TEMPLATE: Final = """\
# docgraph configuration; `docgraph config template` prints every option
mclient:
  # The MongoDB to serve; without it, docgraph starts the embedded one.
  #connection-string: mongodb://user:password@db.example.com:27017/
http-listener:
  host: 127.0.0.1 # 0.0.0.0 accepts connections from other machines
  port: 8080
graphql:
  json-mode: plain # dates and ids as clients expect them
  query-time-limit: 10000 # milliseconds
"""
_WIDTH: Final = 96


def template(sections: Mapping[str, type[Section]]) -> str:
    """Return the text of the file."""
    lines = [_HEAD]
    for name, section in sections.items():
        lines.extend(_comment(_summary(section), ""))
        lines.append(f"{name}:")
        lines.extend(_render_struct(section, "  "))
        lines.append("")
    return "\n".join(lines)


def _render_struct(struct: type[msgspec.Struct], indent: str) -> Iterator[str]:
    for option in options_of(struct).values():
        if "deprecated" in option.extra:
            continue
        if option.struct is not None:
            yield from _comment(option.description, indent)
            yield f"{indent}{option.name}:"
            yield from _render_struct(option.struct, f"{indent}  ")
            continue
        yield from _comment(_describe(option), indent)
        default: Any = msgspec.to_builtins(option.default)
        yield f"{indent}#{option.name}: {render_value(default)}"


def _describe(option: Option) -> str:
    return option.description or "no description"


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )


def _summary(section: type[Section]) -> str:
    return (section.__doc__ or section.__name__).strip().splitlines()[0]
