"""Mounts: the resource (database, collection, document) that a path of the REST API addresses.

A mount binds a part of the database (`what`) to a path (`where`); the longest `where` that the path
begins with wins. The rest of the path is parsed as `<database>/<collection>/<document>` with a few
special names in between. This module does not query the database, and rejects nothing:
`check_names` of `names.py` is for the code that serves the resource.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from docgraph.exchange.data import Resource, ResourceType
from docgraph.exchange.errors import StartupError
from docgraph.exchange.request import Segments, parse_path
from docgraph.store.names import AGGREGATIONS, INDEXES, META, SCHEMA_STORE, SIZE, STREAMS
from docgraph.store.sections import MongoMount

_ALL = "*"
_LISTS = {
    INDEXES: (ResourceType.INDEXES, ResourceType.INDEX),
    # They have no list: without a name they are a resource that allows no method.
    AGGREGATIONS: (ResourceType.AGGREGATION, ResourceType.AGGREGATION),
    STREAMS: (ResourceType.STREAMS, ResourceType.STREAM),
}
_DOCUMENT = 3  # segments of the path of a document
_VARIABLE = re.compile(r"\{([^{}/]+)\}")
_LABEL = re.compile(r"host\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class SplitMount:
    """A mount with its two paths as segments; `*` as `what` has no segments."""

    what: Segments
    where: Segments
    is_template: bool

    def bind(self, segments: Segments, host: str) -> Segments | None:
        """Return the path inside the database, or None if the path does not begin with `where`."""
        if len(segments) < len(self.where):
            return None
        variables = _host_variables(host)
        for pattern, segment in zip(self.where, segments, strict=False):
            name = _VARIABLE.fullmatch(pattern)
            if name is None:
                if pattern != segment:
                    return None
            elif variables.setdefault(name[1], segment) != segment:
                return None
        what = tuple(_fill(part, variables) for part in self.what)
        return None if None in what else (*what, *segments[len(self.where) :])  # type: ignore[arg-type]


class Mounts:
    """The mounts of the REST API below `prefix`, the path that the service is bound to."""

    def __init__(self, mounts: Sequence[MongoMount], prefix: str = "/") -> None:
        self._prefix = parse_path(prefix.encode())
        parsed = [_parse(mount) for mount in mounts]
        self._templates = [mount for mount in parsed if mount.is_template]
        if self._templates and len(self._templates) != len(parsed):
            raise StartupError(
                "/mongo/mongo-mounts: some are templates and some are not",
                hint="make all of them templates, or none",
            )
        # The longest first; of two with equal length, the one with more literal segments.
        self._templates.sort(
            key=lambda mount: (
                -len(mount.where),
                sum(1 for part in mount.where if _VARIABLE.fullmatch(part)),
            )
        )
        self._plain = {} if self._templates else _index(parsed)
        self._documents = frozenset(
            mount.where
            for mount in parsed
            if len(mount.what) == _DOCUMENT and not mount.is_template
        )
        self._longest = max((len(mount.where) for mount in parsed), default=0)

    def resolve(self, segments: Segments, host: str = "") -> Resource | None:
        """Return the resource at the path of a request, or None if nothing is mounted there.

        The `id` of a document, index, aggregation, stream or schema is the raw segment; the meaning
        of a document's id depends on `id_type`.
        """
        depth = len(self._prefix)
        if depth:
            if segments[:depth] != self._prefix:
                return None
            segments = segments[depth:]
        inside = self._bind(segments, host) if self._templates else self._find(segments)
        return None if inside is None else classify(inside)

    def names_document(self, segments: Segments) -> bool:
        """Check if the path is that of a mount whose `what` is a document: the path has no id."""
        return segments[len(self._prefix) :] in self._documents

    def _find(self, segments: Segments) -> Segments | None:
        for length in range(min(len(segments), self._longest), -1, -1):
            what = self._plain.get(segments[:length])
            if what is not None:
                return (*what, *segments[length:])
        return None

    def _bind(self, segments: Segments, host: str) -> Segments | None:
        for mount in self._templates:
            inside = mount.bind(segments, host)
            if inside is not None:
                return inside
        return None


def classify(path: Segments) -> Resource | None:
    """Return the resource at `<database>/<collection>/<document>` with its special names."""
    match len(path):
        case 3:
            return _classify_in_collection(*path)
        case 2:
            return _classify_in_database(*path)
        case 1:
            (name,) = path
            is_size = name == SIZE
            return Resource(ResourceType.SIZE) if is_size else Resource(ResourceType.DATABASE, name)
        case 0:
            return Resource(ResourceType.ROOT)
        case 4 if path[1] != SCHEMA_STORE and path[2] in _LISTS:
            db, collection, list_name, name = path
            return Resource(_LISTS[list_name][1], db, collection, name)
    return None


def _classify_in_database(db: str, name: str) -> Resource:
    match name:
        case "_size":
            return Resource(ResourceType.SIZE, db)
        case "_meta":
            return Resource(ResourceType.METADATA, db)
        case "_schemas":
            return Resource(ResourceType.SCHEMA_STORE, db, SCHEMA_STORE)
    return Resource(ResourceType.COLLECTION, db, name)


def _classify_in_collection(db: str, collection: str, name: str) -> Resource:
    in_schemas = collection == SCHEMA_STORE
    if not in_schemas and name[:1] not in "_*":
        return Resource(ResourceType.DOCUMENT, db, collection, name)
    if name == SIZE:
        return Resource(ResourceType.SIZE, db, collection)
    if name == META:
        return Resource(ResourceType.METADATA, db, collection)
    if in_schemas:
        return Resource(ResourceType.SCHEMA, db, collection, name)
    if name == _ALL:
        return Resource(ResourceType.BULK, db, collection)
    if name in _LISTS:
        return Resource(_LISTS[name][0], db, collection)
    return Resource(ResourceType.DOCUMENT, db, collection, name)


def split_mount(mount: MongoMount) -> SplitMount:
    where = parse_path(mount.where.encode())
    is_template = _VARIABLE.search(mount.where + mount.what) is not None
    if is_template and where[-1:] == ("*",):
        where = where[:-1]  # the paths below a `where` belong to it anyway
    what = () if mount.what == "*" else parse_path(mount.what.encode())
    return SplitMount(what, where, is_template)


def find_paths(
    resource: Resource, mounts: Sequence[MongoMount], prefix: str = "/"
) -> Iterator[Segments]:
    """Return the paths at which a database or collection is mounted, except those of templates."""
    names: Segments = tuple(name for name in (resource.db, resource.collection) if name is not None)
    base = parse_path(prefix.encode())
    for mount in map(split_mount, mounts):
        depth = len(mount.what)
        if not mount.is_template and names[:depth] == mount.what:
            yield (*base, *mount.where, *names[depth:])


def _parse(mount: MongoMount) -> SplitMount:
    """Parse a mount; reject it if `what` needs a variable that no request provides."""
    split = split_mount(mount)
    what, where = split.what, split.where
    used = {name for part in what for name in _VARIABLE.findall(part)}
    given = {name for part in where for name in _VARIABLE.findall(part)}
    unknown = {name for name in used - given if name != "host" and not _LABEL.fullmatch(name)}
    if unknown:
        raise StartupError(
            f"/mongo/mongo-mounts: {mount.what!r} uses {{{min(unknown)}}}, which {mount.where!r} "
            "does not give",
            hint="`what` may use the variables of `where`, {host}, and {host[0]}, {host[1]}, …",
        )
    return split


def _index(mounts: Sequence[SplitMount]) -> dict[Segments, Segments]:
    table: dict[Segments, Segments] = {}
    for mount in mounts:
        if mount.where in table:
            raise StartupError(
                f"/mongo/mongo-mounts: two mounts at /{'/'.join(mount.where)}",
                hint="give each `where` once",
            )
        table[mount.where] = mount.what
    return table


def _host_variables(host: str) -> dict[str, str]:
    name = host.rpartition(":")[0] if re.search(r":\d+\Z", host) else host
    if not name:
        return {}
    labels = {f"host[{index}]": label for index, label in enumerate(name.split("."))}
    return {"host": name, **labels}


def _fill(part: str, variables: Mapping[str, str]) -> str | None:
    """Return the part with its variables replaced; None if the request lacks one of them."""
    if any(name not in variables for name in _VARIABLE.findall(part)):
        return None
    return _VARIABLE.sub(lambda match: variables[match[1]], part)
