"""Missing and unused indexes: a few indexes that serve all apps together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from docgraph.tools.data import CollectionName, Index, IndexUse, NamedIndex, Want, render_command
from docgraph_workbench.advise.advice import Advice, NewIndex, Weight
from docgraph_workbench.advise.collection_sample import CollectionSample
from docgraph_workbench.advise.index_serving import FEW, UNKNOWN, Unserved, find_special_index
from docgraph_workbench.advise.planned_queries import PlannedQuery

IndexKeys = tuple[tuple[str, int], ...]

_ID: Final = "_id_"
_HINTS: Final[Mapping[str, str]] = {
    "no-index-possible": "ask by equal values or ranges as well, or give texts a text index",
    "reads-everything": "begin with a $match that an index serves, or store what it works out",
}
_SPECIAL: Final[Mapping[str, tuple[str, str]]] = {
    "hidden": ("is hidden", ": unhide it with unhideIndex({name})"),
    "sparse": (
        "is sparse, so documents without the property are not in it",
        ": create it again without sparse",
    ),
    "partialFilterExpression": (
        "is partial",
        ": add its condition to the filter, or create one without partialFilterExpression",
    ),
    "collation": (
        "compares texts by a collation",
        ": create one without it, or give the collection the same collation",
    ),
}


def combine(
    unserved: Sequence[Unserved], samples: Mapping[CollectionName, CollectionSample]
) -> tuple[list[Advice], list[NewIndex]]:
    """Combine the unserved queries of all apps into a few indexes to recommend."""
    indexes: list[NewIndex] = []
    advice: list[Advice] = []
    for place in dict.fromkeys(one.question.place for one in unserved):
        here = [one for one in unserved if one.question.place == place]
        here = _simplify([_leave_out_there(one, samples[place]) for one in here], samples[place])
        serious = [one for one in here if one.weight is not Weight.NOTE]
        found = list(_build_indexes(serious, samples[place]))
        indexes += [index for _, index in found]
        planned = [keys for keys, _ in found]
        advice += [_describe(one, samples[place], planned) for one in serious]
        notes = [one for one in here if one.weight is Weight.NOTE]
        advice += _describe_notes(_leave_out_served(notes, planned), samples[place])
    return advice, indexes


def _leave_out_there(one: Unserved, sample: CollectionSample) -> Unserved:
    """Return the query with only those of its needed indexes that are missing."""
    whole = [index.keys for index in sample.plain_indexes if index.complete]
    missing = [want for want in one.wants if not any(map(want.is_served_by, whole))]
    return replace(one, wants=tuple(missing)) if missing else one


def _simplify(unserved: Sequence[Unserved], sample: CollectionSample) -> list[Unserved]:
    """Replace wants by a shorter one whose index already finds few documents.

    An optional argument on top of such an index is not worth a finding.
    """
    wants = {want for one in unserved if not one.question.options for want in one.wants}
    leading = [want for want in wants if any(sample.is_selective(path, FEW) for path in want.equal)]
    simplified: list[Unserved] = []
    for one in unserved:
        is_optional = bool(one.question.options)
        replaced = tuple(
            _find_leading(want, leading, is_optional=is_optional) or want for want in one.wants
        )
        if replaced == one.wants or not is_optional:
            simplified.append(replace(one, wants=replaced))
    return simplified


def _find_leading(want: Want, leading: Sequence[Want], *, is_optional: bool) -> Want | None:
    """Return a shorter want that is enough; an optional sort of few documents needs no index."""
    fewer = [
        one
        for one in leading
        if one.equal < want.equal or (is_optional and one.equal == want.equal and one != want)
    ]
    return min(fewer, key=lambda one: (one.length, sorted(one.equal)), default=None)


def _build_indexes(
    serious: Sequence[Unserved], sample: CollectionSample
) -> Iterator[tuple[IndexKeys, NewIndex]]:
    there = {one.index.keys for one in sample.indexes}
    for keys, wants in merge_wants([want for one in serious for want in one.wants]):
        if keys in there:
            continue  # this one does not serve: hidden or partial
        places = dict.fromkeys(
            one.question.name for one in serious if any(want in wants for want in one.wants)
        )
        replaced = [
            one.name
            for one in sample.indexes
            if one.name != _ID and not one.constrains and is_beginning(one.index, keys)
        ]
        command = render_command(sample.place, dict(keys))
        yield keys, NewIndex(*sample.place, keys, tuple(places), command, tuple(replaced))


def _leave_out_served(notes: Sequence[Unserved], planned: Sequence[IndexKeys]) -> list[Unserved]:
    """Return the notes that no planned index serves."""
    return [
        one
        for one in notes
        if not one.wants
        or not all(any(want.is_served_by(keys) for keys in planned) for want in one.wants)
    ]


def _describe_notes(notes: Sequence[Unserved], sample: CollectionSample) -> Iterator[Advice]:
    """Yield one note for all optional arguments of a field."""
    fields = dict.fromkeys((one.question.access, bool(one.wants)) for one in notes)
    for access, has_wants in fields:
        own = [
            one for one in notes if one.question.access is access and bool(one.wants) is has_wants
        ]
        if len(own) == 1 or not has_wants:
            yield from (_describe(one, sample, []) for one in own)
            continue
        names = list(dict.fromkeys(name for one in own for name in one.question.options))
        commands = [
            render_command(sample.place, dict(keys))
            for keys, _ in merge_wants([want for one in own for want in one.wants])
        ]
        yield Advice(
            Weight.NOTE,
            "no-index",
            f"goes through all {sample.documents} documents of {sample.name} when one of these is "
            f"given: {', '.join(names)}",
            access.app_id,
            access.where,
            f"for those that are given often: {'; '.join(commands)}",
            sample.name,
            {"createIndex": commands, "arguments": names},
        )


def _describe(one: Unserved, sample: CollectionSample, planned: Sequence[IndexKeys]) -> Advice:
    question = one.question
    commands = []
    for want in one.wants:
        keys = next((keys for keys in planned if want.is_served_by(keys)), None)
        keys = next(want.arrange()) if keys is None else keys
        if (same := _find_special(keys, sample)) is not None:
            return _advise(one, same, {})
        commands.append(render_command(sample.place, dict(keys)))
    if not commands:
        return _advise(one, _HINTS.get(one.kind, ""), {})
    wish = " and ".join(dict.fromkeys(commands))
    hint = wish if one.weight is not Weight.NOTE else f"if it is asked often: {wish}"
    extra: dict[str, object] = {"createIndex": commands}
    if question.options:
        extra["arguments"] = [*question.options]
    return _advise(one, hint, extra)


def _find_special(keys: IndexKeys, sample: CollectionSample) -> str | None:
    """Return what to do about an index that has these keys, but does not serve every query."""
    for known in sample.indexes:
        if known.index.keys == keys:
            what, remedy = _SPECIAL.get(known.special, ("does not serve this query", ""))
            name = f"{known.name!r}"
            return f"the index {name} has these keys, but {what}{remedy.format(name=name)}"
    return None


def _advise(one: Unserved, hint: str, extra: Mapping[str, object]) -> Advice:
    question = one.question
    is_order = one.kind == "sorts-in-memory" and question.part == "find"
    return Advice(
        one.weight,
        one.kind,
        one.what,
        question.access.app_id,
        f"{question.access.where}.sort" if is_order else question.where,
        hint,
        ".".join(question.place),
        dict(extra),
    )


def advise_rejection(question: PlannedQuery, reason: str) -> tuple[Advice, NewIndex | None]:
    """Report a query that the database rejects, maybe because it requires a special index."""
    special = find_special_index(question.filter)
    command = "" if special is None else render_command(question.place, special)
    # Only the author knows which properties a text search needs.
    is_known = special is not None and UNKNOWN not in special
    advice = Advice(
        Weight.NOTE if special is None else Weight.WARNING,
        "query-refused",
        f"the database refuses its query{question.condition}: {reason}",
        question.access.app_id,
        question.where,
        f"it needs an index: {command}" if command else "",
        ".".join(question.place),
        {"createIndex": [command]} if is_known else {},
    )
    if special is None or not is_known:
        return advice, None
    return advice, NewIndex(*question.place, tuple(special.items()), (question.name,), command)


def find_idle(
    sample: CollectionSample, named: set[str], used: set[str], uses: Mapping[str, IndexUse] | None
) -> Iterator[Advice]:
    """Yield indexes that no app uses, and those that another one makes superfluous.

    `named` are the properties that apps filter or sort by, `used` the indexes that the database
    chooses for them.
    """
    if sample.documents is None or sample.documents < FEW:
        return
    for one in sample.indexes:
        if one.name == _ID or one.constrains:
            continue
        longer = _find_longer(one, sample)
        first, direction = one.index.keys[0]
        if longer is not None:
            what = f"the index {one.name} is the beginning of {longer.name}, which serves the same"
            yield _build_advice(
                sample, one, "redundant-index", what, "drop it, if no hint names it", uses
            )
        elif one.name not in used and first not in named and isinstance(direction, int | float):
            what = f"the index {one.name} is not used by any app"
            hint = "rules, REST clients and other programs may use it: look before you drop it"
            yield _build_advice(sample, one, "unused-index", what, hint, uses)


def _find_longer(index: NamedIndex, sample: CollectionSample) -> NamedIndex | None:
    return next(
        (
            other
            for other in sample.indexes
            if other is not index
            and other.index.complete
            and len(other.index.keys) > len(index.index.keys)
            and is_beginning(index.index, other.index.keys)
        ),
        None,
    )


def _build_advice(
    sample: CollectionSample,
    index: NamedIndex,
    kind: str,
    what: str,
    hint: str,
    uses: Mapping[str, IndexUse] | None,
) -> Advice:
    extra: dict[str, object] = {"index": index.name}
    use = (uses or {}).get(index.name)
    if use is not None:
        since = "" if use.since is None else f" since {use.since:%Y-%m-%d %H:%M}"
        what = f"{what} (the database has used it {use.accesses} times{since})"
        extra["accesses"] = use.accesses
    return Advice(Weight.NOTE, kind, what, "", "", hint, sample.name, extra)


def merge_wants(wants: Sequence[Want]) -> list[tuple[IndexKeys, list[Want]]]:
    """Return the keys of few indexes, each with the wants that it serves."""
    groups: list[tuple[IndexKeys, list[Want]]] = []
    for want in sorted(set(wants), key=lambda one: (-one.length, sorted(one.equal), one.sort)):
        for number, (_, served) in enumerate(groups):
            keys = _find_keys([*served, want])
            if keys is not None:
                groups[number] = (keys, [*served, want])
                break
        else:
            groups.append((next(want.arrange()), [want]))
    return groups


def _find_keys(wants: Sequence[Want]) -> IndexKeys | None:
    """Return the keys of one index for all of these wants, the longest first; None: none."""
    arranged = wants[0].arrange()
    return next((keys for keys in arranged if all(one.is_served_by(keys) for one in wants)), None)


def is_beginning(index: Index, keys: Sequence[tuple[str, Any]]) -> bool:
    """Return whether an index with these keys serves everything that this one serves."""
    own = index.keys
    if not index.complete or index.unique or len(own) > len(keys):
        return False
    if len(own) == 1:  # an index can be read backwards
        directions = (own[0][1], keys[0][1])
        return own[0][0] == keys[0][0] and all(isinstance(one, int | float) for one in directions)
    return own == tuple(keys[: len(own)])
