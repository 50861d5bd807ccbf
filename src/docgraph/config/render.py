"""YAML rendering: values, the template of the configuration, and its effective values.

The template is valid unchanged and sets nothing; it remains valid when the `#` of any line is
removed.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from docgraph.config.config_tree import ConfigTree
from docgraph.config.decode import Decoded
from docgraph.config.options import mask, options_of
from docgraph.config.parse import resolve_scalar
from docgraph.config.section import Section

# Texts that need no quotes anywhere, in lists and mappings too.
_PLAIN: Final = re.compile(r"[\w/.$][\w/.$-]*", re.ASCII)
# Texts for docgraph, but other types for the many tools that still use YAML 1.1.
_OLD: Final = re.compile(r"y|n|yes|no|on|off|[0-9][0-9_]*", re.IGNORECASE)

_WIDTH: Final = 96


def render_block(value: Mapping[str, Any], width: int = _WIDTH) -> str:
    """Render a mapping that parses to the same value; values that fit are on one line."""
    return "".join(f"{line}\n" for line in _render_lines(value, width))


def _render_lines(value: Any, width: int) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _render_entry(f"{_render_text(str(key))}:", item, width)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            lines = _render_entry("", item, width)
            yield from (f"{'  ' if number else '- '}{line}" for number, line in enumerate(lines))
    else:
        yield render_value(value)


def _render_entry(key: str, value: Any, width: int) -> Iterator[str]:
    line = f"{key} {render_value(value)}".lstrip()
    if len(line) <= width or not isinstance(value, Mapping | list | tuple):
        yield line
        return
    if key:
        yield key
    yield from (f"  {line}" if key else line for line in _render_lines(value, width))


def render_value(value: Any) -> str:
    """Render a value that parses to the same value."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_render_text(str(k))}: {render_value(v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(render_value(item) for item in value)}]"
    if isinstance(value, str):
        return _render_text(value)
    if isinstance(value, float):
        special = {"inf": ".inf", "-inf": "-.inf", "nan": ".nan"}
        return special.get(repr(value), repr(value))
    return json.dumps(value)


def _render_text(text: str) -> str:
    if _PLAIN.fullmatch(text) and resolve_scalar(text) == text and not _OLD.fullmatch(text):
        return text
    return f'"{"".join(_escape(character) for character in text)}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isprintable():
        return character
    # Not the surrogate pairs of JSON, which YAML rejects.
    return f"\\U{ord(character):08x}"


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


def template(sections: Mapping[str, type[Section]]) -> str:
    lines = [_HEAD]
    for name, section in sections.items():
        summary = (section.__doc__ or section.__name__).strip().splitlines()[0]
        lines.extend(_comment(summary, ""))
        lines.append(f"{name}:")
        lines.extend(_render_struct(section, "  "))
        lines.append("")
    return "\n".join(lines)


def _render_struct(struct: type[msgspec.Struct], indent: str) -> Iterator[str]:
    for option in options_of(struct).values():
        if option.struct is not None:
            yield from _comment(option.description, indent)
            yield f"{indent}{option.name}:"
            yield from _render_struct(option.struct, f"{indent}  ")
            continue
        yield from _comment(option.description or "no description", indent)
        default: Any = msgspec.to_builtins(option.default)
        yield f"{indent}#{option.name}: {render_value(default)}"


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
    )


_COLUMN: Final = 56  # where comments begin, unless the value is longer


class _OptionLine(NamedTuple):
    """An option and its value, secrets masked; a group of options has no origin."""

    path: str
    value: Any = None
    origin: str | None = None


def show(tree: ConfigTree, decoded: Decoded) -> str:
    """Render YAML with the origin of each value as a trailing comment."""
    lines: list[str] = []
    for name, section in decoded.sections.items():
        lines.append(f"{name}:")
        for line in _walk(tree, type(section), msgspec.to_builtins(section), f"/{name}"):
            *above, option = line.path[1:].split("/")
            text = f"{'  ' * len(above)}{option}:"
            if line.origin is not None:
                text = f"{f'{text} {render_value(line.value)}':<{_COLUMN}}  # {line.origin}"
            lines.append(text)
        lines.append("")
    return "\n".join(lines)


def list_values(tree: ConfigTree, decoded: Decoded) -> list[dict[str, Any]]:
    """Return the path, value and origin of each option, for machines."""
    return [
        line._asdict()
        for name, section in decoded.sections.items()
        for line in _walk(tree, type(section), msgspec.to_builtins(section), f"/{name}")
        if line.origin is not None
    ]


def _walk(
    tree: ConfigTree, struct: type[msgspec.Struct], values: Mapping[str, Any], path: str
) -> Iterator[_OptionLine]:
    for name, option in options_of(struct).items():
        if "deprecated" in option.extra and values[name] is None:
            continue
        place = f"{path}/{name}"
        if option.struct is not None:
            yield _OptionLine(place)
            yield from _walk(tree, option.struct, values[name], place)
            continue
        origin = tree.origin(_find_source(tree, struct, path, name))
        yield _OptionLine(place, mask(name, values[name], option.extra), str(origin))


def _find_source(tree: ConfigTree, struct: type[msgspec.Struct], path: str, name: str) -> str:
    """Return the path that set an option: its own, or that of the option it replaces."""
    if tree.find(f"{path}/{name}") is None:
        for option in options_of(struct).values():
            if option.extra.get("replaced-by") == name and tree.is_set(f"{path}/{option.name}"):
                return f"{path}/{option.name}"
    return f"{path}/{name}"
