"""The app definition as it is stored: decoded, its keys unescaped, its parts told apart.

Decoding never fails: what has the wrong shape is remembered as a problem, so that every mistake
of a definition is told at once. Whether it can work is the business of `check`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.codec.encode import EncodeError, encode
from docgraph.codec.escape import as_meant
from docgraph.codec.forms import JsonMode
from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.sections import GraphqlLimits
from docgraph.variables.compilation import describe

__all__ = ["AppDefinition", "Finding", "decode_definition", "normalise_uri"]

_DESCRIPTOR_KEYS = ("uri", "description", "enabled", "limits")
_MAX_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class AppDefinition:
    """One app; `problems` and `remarks` are the errors and warnings found while decoding."""

    id: Any
    uri: str  # without leading and trailing slash
    enabled: bool
    description: str
    schema: str
    mappings: Mapping[str, Any]
    limits: Mapping[str, int]
    version: str  # a digest of the whole document
    problems: tuple[Finding, ...] = field(default=())
    remarks: tuple[Finding, ...] = field(default=())


def normalise_uri(uri: str) -> str:
    """The uri as request paths are read: no slash at an end, none doubled (decision 1)."""
    return "/".join(segment for segment in uri.split("/") if segment)


def decode_definition(document: Mapping[str, Any]) -> AppDefinition:
    """Read a stored or submitted document, with escaped or plain keys (decision 6)."""
    return _Decoder(as_meant(document)).decode()


class _Decoder:
    """Reads one document and collects what is wrong with it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._problems: list[Finding] = []
        self._remarks: list[Finding] = []

    def decode(self) -> AppDefinition:
        document = self._document
        descriptor = self._read(document, "descriptor", dict, {})
        uri = self._read(descriptor, "uri", str, None, "descriptor.")
        self._check_id(uri)
        self._check_descriptor(descriptor)
        return AppDefinition(
            id=document.get("_id"),
            uri=normalise_uri(str(document.get("_id", "")) if uri is None else uri),
            enabled=self._read(descriptor, "enabled", bool, True, "descriptor."),
            description=self._read(descriptor, "description", str, "", "descriptor."),
            schema=self._require("schema", str, "", "give the schema as SDL text"),
            mappings=self._require("mappings", dict, {}, "map one field of Query at least"),
            limits=self._read_limits(descriptor),
            version=self._digest(),
            problems=tuple(self._problems),
            remarks=tuple(self._remarks),
        )

    def _read(
        self, document: Mapping[str, Any], key: str, kind: type, default: Any, prefix: str = ""
    ) -> Any:
        value = document.get(key)
        if value is None:
            return default
        if not isinstance(value, kind):
            self._problem(f"{prefix}{key}", f"must be {_NOUNS[kind]}, not {describe(value)}")
            return default
        return value

    def _require(self, key: str, kind: type, default: Any, hint: str) -> Any:
        if self._document.get(key) in (None, ""):
            self._problem(key, "is missing", hint)
        return self._read(self._document, key, kind, default)

    def _check_id(self, uri: str | None) -> None:
        """Decisions 1 to 3."""
        if uri is not None:
            segments = normalise_uri(uri).split("/")
            if segments == [""]:
                self._problem("descriptor.uri", "cannot be empty")
            elif not {".", ".."}.isdisjoint(segments):
                self._problem("descriptor.uri", "cannot have '.' or '..' as a segment")
            return
        identifier = self._document.get("_id")
        if not isinstance(identifier, str) or not identifier or "/" in identifier:
            self._problem(
                "_id",
                "must be a non-empty string without a slash",
                "or give the app its own address in descriptor.uri",
            )

    def _check_descriptor(self, descriptor: Mapping[str, Any]) -> None:
        for key in descriptor:
            where = f"descriptor.{key}"
            if key == "name":
                self._remarks.append(
                    Finding(
                        where,
                        "belongs to version 8 and has no effect",
                        "remove it: the name of an app is its _id; use descriptor.uri to serve "
                        "it at another address",
                    )
                )
            elif key not in _DESCRIPTOR_KEYS:
                known = ", ".join(_DESCRIPTOR_KEYS)
                self._remarks.append(Finding(where, "is not known and has no effect", known))

    def _read_limits(self, descriptor: Mapping[str, Any]) -> dict[str, int]:
        limits = self._read(descriptor, "limits", dict, {}, "descriptor.")
        found = {}
        for key, value in limits.items():
            where = f"descriptor.limits.{key}"
            if key not in GraphqlLimits.__struct_encode_fields__:
                known = ", ".join(GraphqlLimits.__struct_encode_fields__)
                self._problem(where, "is not a limit", f"limits are {known}")
            elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
                self._problem(where, "must be a whole number above 0")
            else:
                found[key] = min(int(value), _MAX_LIMIT)
        return found

    def _digest(self) -> str:
        try:
            content = encode(self._document, JsonMode.EXTENDED)
        except EncodeError as error:
            self._problem(".".join(map(str, reversed(error.path))), error.reason)
            return ""
        return hashlib.blake2b(content, digest_size=16).hexdigest()

    def _problem(self, where: str, what: str, hint: str | None = None) -> None:
        self._problems.append(Finding(where, what, hint))


_NOUNS: Mapping[type, str] = {dict: "an object", str: "a string", bool: "a boolean"}
