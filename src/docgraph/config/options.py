"""Option metadata of the sections: names, types, defaults, descriptions, secrets.

It is read from the structs by `msgspec.inspect`, so that the decoder, the template, the reference
page and `docgraph config show` have one source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, inspect

from docgraph.config.config_node import ConfigNode

MASK: Final = "********"

_SECRET_NAME: Final = re.compile(
    r"password|passwd|passphrase|pwd|secret|(?:^|[-_ .a-z])key\Z", re.I
)
_USER_INFO: Final = re.compile(r"(?P<scheme>[a-z+]*://[^:@/?]*):.*@", re.DOTALL | re.I)
_PARAMETER: Final = re.compile(
    r"(?P<name>[?&][^=&]*(?:password|secret|token|authMechanismProperties)[^=&]*)=[^&]*", re.I
)


def is_secret(name: str, extra: Mapping[str, Any]) -> bool:
    """Return whether an option is a secret, by its type or else by its name."""
    declared = extra.get("secret")
    return bool(declared) if declared is not None else _SECRET_NAME.search(name) is not None


def mask(name: str, value: Any, extra: Mapping[str, Any]) -> Any:
    """Return the value with secrets masked, also inside lists and mappings without types."""
    if isinstance(value, Mapping):
        below = extra if extra.get("secret") else {}  # in a secret mapping, every value is a secret
        return {key: mask(key, child, below) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [mask(name, child, extra) for child in value]
    if value is None or isinstance(value, bool) or value == "":
        return value
    if is_secret(name, extra):
        return MASK
    if isinstance(value, str) and "://" in value:
        return mask_connection_string(value)
    return value


def mask_connection_string(text: str) -> str:
    """Mask the password and secret parameters of a connection string."""
    # Greedy up to the last '@': a password with an unescaped '@' or '/' is hidden in full.
    text = _USER_INFO.sub(rf"\g<scheme>:{MASK}@", text)
    return _PARAMETER.sub(rf"\g<name>={MASK}", text)


@dataclass(frozen=True, slots=True)
class Option:
    """One key of a section."""

    name: str
    kind: inspect.Type
    extra: Mapping[str, Any]
    default: Any
    required: bool
    owner: type[msgspec.Struct]
    attribute: str

    @property
    def description(self) -> str:
        """The text in its annotation, which msgspec ignores."""
        return _read_texts(self.owner)[self.attribute]

    @property
    def struct(self) -> type[msgspec.Struct] | None:
        return self.kind.cls if isinstance(self.kind, inspect.StructType) else None


@cache
def _read_texts(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the descriptions of all options: only for people, and slow to read."""
    hints = get_type_hints(struct, include_extras=True)
    return {name: _find_text(getattr(hint, "__metadata__", ())) for name, hint in hints.items()}


def _find_text(annotations: Sequence[Any]) -> str:
    """Return the text among the annotations, or that of a `Meta`; the outermost one counts."""
    texts = (text.description if isinstance(text, Meta) else text for text in annotations[::-1])
    return next((text for text in texts if isinstance(text, str)), "")


def unwrap(kind: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    """Return a type without its annotations, and their `extra`."""
    extra: dict[str, Any] = {}
    while isinstance(kind, inspect.Metadata):
        extra = {**(kind.extra or {}), **extra}
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        # `Secret | None` is a secret: annotations of a member apply to the option.
        for member in kind.types:
            extra = {**unwrap(member)[1], **extra}
    return kind, extra


@cache
def options_of(struct: type[msgspec.Struct]) -> dict[str, Option]:
    """Return the options of a struct by name; the options of all plugins come first."""
    info = inspect.type_info(struct)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{struct!r} is not a struct")
    options = {field.encode_name: _read_field(field, struct) for field in info.fields}
    order = [name for name in ("enabled", "uri", "secured") if name in options]
    return {name: options[name] for name in (*order, *options)}


def _read_field(field: inspect.Field, owner: type[msgspec.Struct]) -> Option:
    kind, extra = unwrap(field.type)
    default: Any = field.default
    if default is NODEFAULT and field.default_factory is not NODEFAULT:
        default = field.default_factory()
    return Option(
        name=field.encode_name,
        kind=kind,
        extra=extra,
        default=None if default is NODEFAULT else default,
        required=field.required,
        owner=owner,
        attribute=field.name,
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


_MAX_SHOWN: Final = 60


def describe_kind(kind: inspect.Type, extra: Mapping[str, Any]) -> str:
    """Describe a type: "a whole number", "one of 'a' and 'b'"."""
    match kind:
        case inspect.Metadata():
            bare, inner = unwrap(kind)
            return describe_kind(bare, {**inner, **extra})
        case inspect.UnionType():
            return join_words([describe_kind(member, extra) for member in kind.types])
        case inspect.LiteralType():
            return join_words([quote(value) for value in kind.values])
        case inspect.EnumType():
            return join_words([quote(member.value) for member in kind.cls])
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return f"a list of {_plural(kind.item_type)}"
        case inspect.IntType() if extra.get("size"):
            return "a size such as 65536, '64 KiB' or '1 MiB'"
        case inspect.StrType() if "form" in extra:
            return str(extra["form"])
    return _WORDS.get(type(kind), _OTHERS)[0]


# Of one value, and of several.
_WORDS: Final[dict[type, tuple[str, str]]] = {
    inspect.BoolType: ("true or false", "true or false"),
    inspect.IntType: ("a whole number", "whole numbers"),
    inspect.FloatType: ("a number", "numbers"),
    inspect.StrType: ("text", "texts"),
    inspect.NoneType: ("null", "values"),
    inspect.DictType: ("a mapping", "mappings"),
    inspect.StructType: ("a mapping of options", "mappings"),
}
_OTHERS: Final = ("another kind of value", "values")


def _plural(kind: inspect.Type) -> str:
    bare, extra = unwrap(kind)
    if isinstance(bare, inspect.LiteralType):
        return describe_kind(bare, extra)
    return _WORDS.get(type(bare), _OTHERS)[1]


def describe_value(node: ConfigNode, *, secret: bool) -> str:
    """Describe a value: "text 'abc'", "a list"; of a secret, only its type."""
    value = node.value
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if secret else f"text {quote(mask_connection_string(value))}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "a number" if secret else f"the number {value}"[: _MAX_SHOWN + 12]


def quote(value: object) -> str:
    """Quote a value, shortened when long, without control characters."""
    text = str(value)
    text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    return f"'{text}'" if text.isprintable() else ascii(text)


def join_words(words: Iterable[str]) -> str:
    """Return `a, b or c`."""
    parts: Sequence[str] = list(dict.fromkeys(words))
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} or {parts[-1]}"
