"""Missing and unused indexes: a few indexes that serve all apps together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from docgraph.tools.data import CollectionName, Index, Want, render_command
from docgraph_workbench.advise.advice import Advice, NewIndex, Weight
from docgraph_workbench.advise.collection_sample import CollectionSample
from docgraph_workbench.advise.index_serving import FEW, UNKNOWN, Unserved, find_special_index
from docgraph_workbench.advise.index_uses import IndexUse, NamedIndex
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
    for place in dict.fromkeys(finding.question.place for finding in unserved):
        findings = [finding for finding in unserved if finding.question.place == place]
        findings = _simplify(
            [_leave_out_there(finding, samples[place]) for finding in findings], samples[place]
        )
        serious = [finding for finding in findings if finding.weight is not Weight.NOTE]
        built = list(_build_indexes(serious, samples[place]))
        indexes += [index for _, index in built]
        planned = [keys for keys, _ in built]
        advice += [_describe(finding, samples[place], planned) for finding in serious]
        notes = [finding for finding in findings if finding.weight is Weight.NOTE]
        advice += _describe_notes(_leave_out_served(notes, planned), samples[place])
    return advice, indexes


def _leave_out_there(finding: Unserved, sample: CollectionSample) -> Unserved:
    """Return the query with only those of its needed indexes that are missing."""
    whole = [index.keys for index in sample.plain_indexes if index.complete]
    missing = [want for want in finding.wants if not any(map(want.is_served_by, whole))]
    return replace(finding, wants=tuple(missing)) if missing else finding


def _simplify(unserved: Sequence[Unserved], sample: CollectionSample) -> list[Unserved]:
    """Replace wants by a shorter one whose index already finds few documents.

    An optional argument on top of such an index is not worth a finding.
    """
    wants = {want for finding in unserved if not finding.question.options for want in finding.wants}
    leading = [want for want in wants if any(sample.is_selective(path, FEW) for path in want.equal)]
    simplified: list[Unserved] = []
    for finding in unserved:
        is_optional = bool(finding.question.options)
        replaced = tuple(
            _find_leading(want, leading, is_optional=is_optional) or want for want in finding.wants
        )
        if replaced == finding.wants or not is_optional:
            simplified.append(replace(finding, wants=replaced))
    return simplified


def _find_leading(want: Want, leading: Sequence[Want], *, is_optional: bool) -> Want | None:
    """Return a shorter want that is enough; an optional sort of few documents needs no index."""
    fewer = [
        candidate
        for candidate in leading
        if candidate.equal < want.equal
        or (is_optional and candidate.equal == want.equal and candidate != want)
    ]
    return min(
        fewer, key=lambda candidate: (candidate.length, sorted(candidate.equal)), default=None
    )


def _build_indexes(
    serious: Sequence[Unserved], sample: CollectionSample
) -> Iterator[tuple[IndexKeys, NewIndex]]:
    existing = {index.index.keys for index in sample.indexes}
    for keys, wants in merge_wants([want for finding in serious for want in finding.wants]):
        if keys in existing:
            continue  # this one does not serve: hidden or partial
        places = dict.fromkeys(
            finding.question.name
            for finding in serious
            if any(want in wants for want in finding.wants)
        )
        replaced = [
            index.name
            for index in sample.indexes
            if index.name != _ID and not index.constrains and is_beginning(index.index, keys)
        ]
        command = render_command(sample.place, dict(keys))
        yield keys, NewIndex(*sample.place, keys, tuple(places), command, tuple(replaced))


def _leave_out_served(notes: Sequence[Unserved], planned: Sequence[IndexKeys]) -> list[Unserved]:
    """Return the notes that no planned index serves."""
    return [
        finding
        for finding in notes
        if not finding.wants
        or not all(any(want.is_served_by(keys) for keys in planned) for want in finding.wants)
    ]


def _describe_notes(notes: Sequence[Unserved], sample: CollectionSample) -> Iterator[Advice]:
    """Yield one note for all optional arguments of a field."""
    fields = dict.fromkeys((finding.question.access, bool(finding.wants)) for finding in notes)
    for access, has_wants in fields:
        group = [
            finding
            for finding in notes
            if finding.question.access is access and bool(finding.wants) is has_wants
        ]
        if len(group) == 1 or not has_wants:
            yield from (_describe(finding, sample, []) for finding in group)
            continue
        names = list(dict.fromkeys(name for finding in group for name in finding.question.options))
        commands = [
            render_command(sample.place, dict(keys))
            for keys, _ in merge_wants([want for finding in group for want in finding.wants])
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


def _describe(finding: Unserved, sample: CollectionSample, planned: Sequence[IndexKeys]) -> Advice:
    question = finding.question
    commands = []
    for want in finding.wants:
        keys = next((keys for keys in planned if want.is_served_by(keys)), None)
        keys = next(want.arrange()) if keys is None else keys
        if (same := _find_special(keys, sample)) is not None:
            return _advise(finding, same, {})
        commands.append(render_command(sample.place, dict(keys)))
    if not commands:
        return _advise(finding, _HINTS.get(finding.kind, ""), {})
    wish = " and ".join(dict.fromkeys(commands))
    hint = wish if finding.weight is not Weight.NOTE else f"if it is asked often: {wish}"
    extra: dict[str, object] = {"createIndex": commands}
    if question.options:
        extra["arguments"] = [*question.options]
    return _advise(finding, hint, extra)


def _find_special(keys: IndexKeys, sample: CollectionSample) -> str | None:
    """Return what to do about an index that has these keys, but does not serve every query."""
    for index in sample.indexes:
        if index.index.keys == keys:
            what, remedy = _SPECIAL.get(index.special, ("does not serve this query", ""))
            name = f"{index.name!r}"
            return f"the index {name} has these keys, but {what}{remedy.format(name=name)}"
    return None


def _advise(finding: Unserved, hint: str, extra: Mapping[str, object]) -> Advice:
    question = finding.question
    is_order = finding.kind == "sorts-in-memory" and question.part == "find"
    return Advice(
        finding.weight,
        finding.kind,
        finding.what,
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
    for index in sample.indexes:
        if index.name == _ID or index.constrains:
            continue
        longer = _find_longer(index, sample)
        first, direction = index.index.keys[0]
        if longer is not None:
            what = (
                f"the index {index.name} is the beginning of {longer.name}, which serves the same"
            )
            yield _build_advice(
                sample, index, "redundant-index", what, "drop it, if no hint names it", uses
            )
        elif index.name not in used and first not in named and isinstance(direction, int | float):
            what = f"the index {index.name} is not used by any app"
            hint = "rules, REST clients and other programs may use it: look before you drop it"
            yield _build_advice(sample, index, "unused-index", what, hint, uses)


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
    for want in sorted(set(wants), key=lambda want: (-want.length, sorted(want.equal), want.sort)):
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
    return next((keys for keys in arranged if all(want.is_served_by(keys) for want in wants)), None)


def is_beginning(index: Index, keys: Sequence[tuple[str, Any]]) -> bool:
    """Return whether an index with these keys serves everything that this one serves."""
    index_keys = index.keys
    if not index.complete or index.unique or len(index_keys) > len(keys):
        return False
    if len(index_keys) == 1:  # an index can be read backwards
        directions = (index_keys[0][1], keys[0][1])
        return index_keys[0][0] == keys[0][0] and all(
            isinstance(direction, int | float) for direction in directions
        )
    return index_keys == tuple(keys[: len(index_keys)])
