"""Option metadata of the sections: names, types, defaults, descriptions, secrets.

It is read from the structs by `msgspec.inspect`, so that the decoder, the template, the reference
page and `docgraph config show` have one source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import NODEFAULT, inspect

_FIRST: Final = ("enabled", "uri", "secured")


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a section."""

    name: str
    kind: inspect.Type
    description: str
    extra: Mapping[str, Any]
    default: Any
    required: bool

    @property
    def struct(self) -> type[msgspec.Struct] | None:
        """The struct of a nested section."""
        return self.kind.cls if isinstance(self.kind, inspect.StructType) else None


def unwrap(kind: inspect.Type) -> tuple[inspect.Type, dict[str, Any], str]:
    """Return a type without its annotations, their `extra`, and the description."""
    extra: dict[str, Any] = {}
    description = ""
    while isinstance(kind, inspect.Metadata):
        extra = {**(kind.extra or {}), **extra}
        description = description or (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        # `Secret | None` is a secret: annotations of a member apply to the option.
        for member in kind.types:
            extra = {**unwrap(member)[1], **extra}
    return kind, extra, description


@cache
def options_of(struct: type[msgspec.Struct]) -> dict[str, Option]:
    """Return the options of a struct by name; the options of all plugins come first."""
    info = inspect.type_info(struct)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{struct!r} is not a struct")
    options = {field.encode_name: _read_field(field) for field in info.fields}
    order = [name for name in _FIRST if name in options]
    return {name: options[name] for name in (*order, *options)}


def _read_field(field: inspect.Field) -> Option:
    kind, extra, description = unwrap(field.type)
    default: Any = field.default
    if default is NODEFAULT and field.default_factory is not NODEFAULT:
        default = field.default_factory()
    return Option(
        name=field.encode_name,
        kind=kind,
        description=description,
        extra=extra,
        default=None if default is NODEFAULT else default,
        required=field.required,
    )


def walk_options(struct: type[msgspec.Struct], path: str) -> Iterator[tuple[str, Option]]:
    """Yield all options of a section with their paths, nested ones after their parent."""
    for name, option in options_of(struct).items():
        yield f"{path}/{name}", option
        if option.struct is not None:
            yield from walk_options(option.struct, f"{path}/{name}")


def find_option(
    sections: Mapping[str, type[msgspec.Struct]], steps: tuple[str | int, ...]
) -> Option | None:
    """Return the option at a path of names."""
    if not steps or not isinstance(steps[0], str) or steps[0] not in sections:
        return None
    struct: type[msgspec.Struct] | None = sections[steps[0]]
    option = None
    for step in steps[1:]:
        if struct is None or not isinstance(step, str):
            return None
        option = options_of(struct).get(step)
        struct = option.struct if option else None
    return option
