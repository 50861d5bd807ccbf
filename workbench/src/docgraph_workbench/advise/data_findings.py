"""Data findings: properties that an app declares but the data never have, or that do not fit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from graphql import GraphQLObjectType, get_named_type

from docgraph.tools.apps import (
    AggregationMapping,
    App,
    FieldMapping,
    Graphql,
    GroupMapping,
    QueryMapping,
    find_visible_parts,
)
from docgraph.tools.data import CollectionName, find_nearest, flatten_stages
from docgraph_workbench.advise.accesses import (
    OPTIONAL,
    Access,
    find_accesses,
    find_paths,
    find_spots,
)
from docgraph_workbench.advise.advice import Advice, Weight
from docgraph_workbench.advise.collection_sample import CollectionSample
from docgraph_workbench.advise.declared_types import FieldTally, Holding
from docgraph_workbench.infer.profile import MAX_DEPTH, NUMBERS
from docgraph_workbench.infer.sensitive_names import is_secret

_ENOUGH: Final = 20  # sampled documents from which a property that never occurs is worth a warning
_MAX_KINDS: Final = 3


def compare_types(holding: Holding, sample: CollectionSample) -> Iterator[Advice]:
    """Yield where the documents of a collection contradict the type declared for them."""
    tallies = [tally for tally in holding.tallies if tally.objects]
    shown = {tally.path[0] for tally in tallies if tally.is_top}
    for tally in tallies:
        yield from _advise_field(tally, str(holding.app.definition.id), sample, shown)


def _advise_field(
    tally: FieldTally, app: str, sample: CollectionSample, shown: Collection[str]
) -> Iterator[Advice]:
    where = f"schema: {tally.type_name}.{tally.name}"
    noun = "documents" if tally.is_top else "objects"
    empty = tally.objects - tally.filled
    if tally.misfits:
        kinds = ", ".join(kind for kind, _ in tally.kinds.most_common(_MAX_KINDS))
        yield Advice(
            Weight.WARNING,
            "wrong-type",
            f"declared as {tally.type}, but {tally.misfits} of {tally.objects} {noun} have "
            f"{kinds}, for example the one with _id {_show(tally.first_misfit)}: such a value is "
            "answered with null and an error",
            app,
            where,
            "declare a type that shows all of them, or fix the data",
            sample.name,
            {"count": tally.misfits, "of": tally.objects, "example": tally.first_misfit},
        )
    if tally.is_required and empty:
        yield Advice(
            Weight.WARNING,
            "missing-value",
            f"declared as non-null ({tally.type}), but {empty} of {tally.objects} {noun} have no "
            f"value, for example the one with _id {_show(tally.first_empty)}: such an object is "
            "answered with null and an error",
            app,
            where,
            "leave the ! away, or give them a value",
            sample.name,
            {"count": empty, "of": tally.objects, "example": tally.first_empty},
        )
    elif not tally.filled or (tally.is_top and is_unseen(".".join(tally.path), sample)):
        yield _advise_unseen(tally, app, sample, shown)


def _advise_unseen(
    tally: FieldTally, app: str, sample: CollectionSample, shown: Collection[str]
) -> Advice:
    path = ".".join(tally.path)
    noun = "documents" if tally.is_top else "objects"
    hint = "is it written like this in the data? If it is to come, all is well"
    nearest = _find_similar(tally.path[0], sample, shown) if tally.is_top else None
    if nearest is not None:
        hint = f"the data have {nearest!r}: map the field to it"
    return Advice(
        Weight.WARNING if tally.objects >= _ENOUGH or nearest else Weight.NOTE,
        "never-seen",
        f"{path!r} has no value in any of the {tally.objects} {noun} of {sample.name} "
        "that were read",
        app,
        f"schema: {tally.type_name}.{tally.name}",
        hint,
        sample.name,
        {"of": tally.objects},
    )


def _find_similar(name: str, sample: CollectionSample, shown: Collection[str] = ()) -> str | None:
    """Return a property of the data that may be meant: none that is shown by its own name."""
    names = sample.profile.shape.fields
    return (
        None
        if name in names
        else find_nearest(name, (candidate for candidate in names if candidate not in shown))
    )


def _show(value: Any) -> str:
    return repr(str(value))[:80] if not isinstance(value, int | float) else str(value)


def find_unseen(access: Access, sample: CollectionSample) -> Iterator[Advice]:
    """Yield properties that a filter, a sort or a group names and no document has."""
    if sample.profile.documents < _ENOUGH:
        return
    for part, paths in _list_named(access.mapping):
        for path in dict.fromkeys(paths):
            if is_unseen(path, sample):
                yield _advise_unknown(access, part, "names", path, sample)


def _advise_unknown(
    access: Access, part: str, verb: str, path: str, sample: CollectionSample, effect: str = ""
) -> Advice:
    nearest = _find_similar(path.partition(".")[0], sample)
    return Advice(
        Weight.WARNING,
        "never-seen",
        f"{verb} {path!r}, which none of the {sample.profile.documents} documents of "
        f"{sample.name} that were read has{effect}",
        access.app_id,
        f"{access.where}.{part}",
        f"the data have {nearest!r}" if nearest else "is it written like this there?",
        sample.name,
        {"of": sample.profile.documents},
    )


def _list_named(
    mapping: QueryMapping | AggregationMapping,
) -> Iterator[tuple[str, Iterable[str]]]:
    if isinstance(mapping, QueryMapping | GroupMapping):
        yield "find", find_paths(mapping.find.source)
    if isinstance(mapping, GroupMapping):
        yield "group", (result.path for result in mapping.results.values() if result.path)
    elif isinstance(mapping, QueryMapping) and mapping.sort is not None:
        yield "sort", find_paths(mapping.sort.source)


def is_unseen(path: str, sample: CollectionSample) -> bool:
    """Return whether a property occurs in none of the sampled documents."""
    steps = path.split(".")
    if not sample.profile.documents or not sample.is_whole or len(steps) > MAX_DEPTH:
        return False
    for number in range(1, len(steps)):
        seen = sample.find_seen(".".join(steps[:number]))
        if seen is not None and seen.elements is not None and "array" in seen.elements.kinds:
            return False  # nested lists are not sampled
    return sample.find_seen(path) is None


def compare_relations(
    access: Access,
    parents: Sequence[CollectionSample],
    samples: Mapping[tuple[str, str], CollectionSample],
) -> Iterator[Advice]:
    """Yield keys of parents that do not exist, or that no document could match."""
    target = samples.get(access.place)
    if not isinstance(access.mapping, QueryMapping | GroupMapping) or access.is_root:
        return
    spots = dict.fromkeys(spot for spot in find_spots(access.mapping.find.source) if spot.is_key)
    for spot in spots:
        for parent in parents:
            if parent.profile.documents >= _ENOUGH and is_unseen(spot.name, parent):
                effect = ": nothing is ever found"
                yield _advise_unknown(access, "find", "$fk names", spot.name, parent, effect)
            elif target is not None and spot.path:
                yield from _compare_kinds(access, (spot.name, parent), (spot.path, target))


def _compare_kinds(
    access: Access, key: tuple[str, CollectionSample], sought: tuple[str, CollectionSample]
) -> Iterator[Advice]:
    key_kinds, sought_kinds = _find_kinds(*key), _find_kinds(*sought)
    if key_kinds and sought_kinds and key_kinds.isdisjoint(sought_kinds):
        yield Advice(
            Weight.WARNING,
            "relation-types",
            f"{key[0]!r} in {key[1].name} is {' or '.join(sorted(key_kinds))}, {sought[0]!r} in "
            f"{sought[1].name} is {' or '.join(sorted(sought_kinds))}: nothing is ever found",
            access.app_id,
            f"{access.where}.find",
            "store the key as what it refers to",
            sought[1].name,
        )


def _find_kinds(path: str, sample: CollectionSample) -> set[str]:
    seen = sample.find_seen(path)
    if seen is None:
        return set()
    kinds = {kind for kind in seen.kinds if kind != "array"}
    if seen.elements is not None:
        kinds |= set(seen.elements.kinds)
    return {"number" if kind in NUMBERS else kind for kind in kinds}


def advise_missing(app: str, places: Sequence[str], sample: CollectionSample) -> Advice:
    """Report a collection that does not exist."""
    more = f", which {len(places)} fields are about" if len(places) > 1 else ""
    return Advice(
        Weight.WARNING,
        "missing-collection",
        f"there is no collection {sample.name}{more}",
        app,
        places[0],
        "is it written like this in the database?",
        sample.name,
        {"places": list(places)},
    )


def advise_problem(sample: CollectionSample, reason: str) -> Advice:
    """Report a collection that could not be inspected."""
    return Advice(
        Weight.WARNING,
        "not-looked-at",
        f"{sample.name} could not be looked at: {reason}",
        hint="take a smaller sample, or more time"
        if sample.is_slow
        else "`docgraph doctor` says which rights are missing",
        collection=sample.name,
    )


_BOUNDING: Final = frozenset({"$limit", "$sample", "$count", "$bucket", "$bucketAuto", "$facet"})
_GROUPING: Final = ("$group", "$sortByCount")
_MULTIPLYING: Final = frozenset({"$unwind", "$unionWith"})
_HARMLESS: Final = frozenset({"Boolean", "DateTime"})  # whether a secret exists, or since when
_FEWEST_VALUES: Final = 3


def find_unlimited(
    access: Access, sample: CollectionSample | None, settings: Graphql
) -> Iterator[Advice]:
    """Yield lists that only the configuration bounds."""
    mapping = access.mapping
    size = None if sample is None else sample.documents
    if not access.is_list or (sample is not None and sample.listed is None):
        return
    if isinstance(mapping, QueryMapping):
        if mapping.limit is not None or "_id" in (mapping.find.source or {}):
            return
        most = settings.default_limit
        what = f"a list without a limit: it ends after {most} documents (graphql.default-limit), "
        what += "and callers cannot ask for fewer, or for the rest"
        hint = 'give it arguments: limit: {$arg: ["limit", 20]}, skip: {$arg: ["skip", 0]}'
    else:
        stages = flatten_stages(mapping.stages.source, OPTIONAL)
        if _is_bounded(stages) or getattr(mapping, "limit", None) is not None:
            return
        most = settings.max_limit
        what, hint = "an aggregation without $limit: ", "end it with a $limit"
        if (grouped := _find_grouped(stages)) is not None:
            path = _find_varied(grouped, sample, most)
            if path is None:
                return
            what = f"{what}it has a result for each {path}, and "
            hint += ", or group by a property with fewer values"
        what += f"more than {most} results are the error too-many-results (graphql.max-limit)"
    is_large = size is None or size > most
    weight = Weight.WARNING if is_large and access.is_root else Weight.NOTE
    place = ".".join(access.place)
    yield Advice(weight, "unlimited-list", what, access.app_id, access.where, hint, place)


def _is_bounded(stages: list[Mapping[str, object]]) -> bool:
    """Return whether the stages return few results, whatever the data are."""
    names = {name for stage in stages for name in stage}
    first = stages[0].get("$match") if stages else None
    is_single = isinstance(first, Mapping) and "_id" in first and not names & _MULTIPLYING
    return is_single or bool(names & _BOUNDING)


def _find_grouped(stages: list[Mapping[str, object]]) -> list[str] | None:
    """Return the properties by which the last stage that groups distinguishes; None: none does."""
    for stage in reversed(stages):
        for name in _GROUPING:
            if name in stage:
                body = stage[name]
                key = body.get("_id") if isinstance(body, Mapping) and name == "$group" else body
                parts = key.values() if isinstance(key, Mapping) else [key]
                return [path for part in parts if (path := _read_path(part))]
    return None


def _read_path(part: object) -> str:
    """Return the path of an expression that is a property, or `$ifNull` of one; else empty."""
    match part:
        case {"$ifNull": [inner, None]}:
            return _read_path(inner)
        case str() if part[:1] == "$" and part[1:2] != "$":
            return part[1:]
    return ""


def _find_varied(paths: list[str], sample: CollectionSample | None, most: int) -> str | None:
    """Return the property that has more values than this, estimated from the sample."""
    size = 0 if sample is None else sample.documents or 0
    if sample is None or size <= most:
        return None
    varied = (path for path in paths if path == "_id" or sample.is_selective(path, size // most))
    return next(varied, None)


def find_secrets(
    app: App, samples: Mapping[CollectionName, CollectionSample], *, is_open: bool | None
) -> Iterator[Advice]:
    """Yield fields like passwords that every caller of the app sees."""
    visible = find_visible_parts(app, ())
    accesses = list(find_accesses(app))
    for type_name, fields in app.mappings.items():
        type_ = app.schema.type_map.get(type_name)
        if not isinstance(type_, GraphQLObjectType):
            continue
        places = [access for access in accesses if access.item_type is type_]
        if places and all(map(_is_own, places)):
            continue  # callers find only their own documents
        for name, mapping in fields.items():
            if (
                (type_name, name) in visible
                and isinstance(mapping, FieldMapping)
                and get_named_type(type_.fields[name].type).name not in _HARMLESS
                and (reason := _find_reason(type_name, name, mapping, places, samples))
            ):
                yield _warn(app, f"{type_name}.{name}", reason, is_open)


def _is_own(access: Access) -> bool:
    return any(name.startswith("@user") for name in access.names)


def _find_reason(
    type_name: str,
    name: str,
    mapping: FieldMapping,
    places: list[Access],
    samples: Mapping[CollectionName, CollectionSample],
) -> str:
    if is_secret(name, type_name) or is_secret(" ".join(mapping.path[-2:]), type_name):
        return "its name says that it holds a secret"
    for access in places:
        sample = samples.get(access.place)
        seen = None if sample is None else sample.find_seen(mapping.text)
        if seen is None or seen.filled < _FEWEST_VALUES:
            continue
        if seen.holds_secrets(mapping.path[-1], type_name):
            return "its values look like hashes of passwords, keys or tokens"
    return ""


def _warn(app: App, field: str, reason: str, is_open: bool | None) -> Advice:
    who = "everyone, also without a login, may" if is_open else "everyone who may call the app can"
    return Advice(
        Weight.ERROR if is_open else Weight.WARNING,
        "secret-readable",
        f"{who} read it, and {reason}",
        str(app.definition.id),
        f"schema: {field}",
        "remove the field, or hide it: @visible(roles: [...])",
    )
