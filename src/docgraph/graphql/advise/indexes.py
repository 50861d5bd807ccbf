"""The indexes that are missing, few for all apps together, and those that no app uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from docgraph.graphql.advise.findings import Advice, NewIndex, Weight
from docgraph.graphql.advise.look import Look, Place
from docgraph.graphql.advise.serving import FEW, Unserved
from docgraph.graphql.advise.wants import Keys, Want, is_beginning, merge_wants
from docgraph.graphql.execute.foresee import render_command
from docgraph.store.driver.planning import NamedIndex, Use

__all__ = ["Combined", "combine", "find_idle"]

_ID: Final = "_id_"
_HINTS: Final[Mapping[str, str]] = {
    "no-index-possible": "ask by equal values or ranges as well, or give texts a text index",
    "reads-everything": "begin with a $match that an index serves, or store what it works out",
}


@dataclass(frozen=True, slots=True)
class Combined:
    """The findings, and the indexes for those that are more than notes."""

    advice: list[Advice]
    indexes: list[NewIndex]


def combine(unserved: Sequence[Unserved], looks: Mapping[Place, Look]) -> Combined:
    """Few indexes for everything that is not served, of all apps."""
    indexes: list[NewIndex] = []
    advice: list[Advice] = []
    for place in dict.fromkeys(one.question.place for one in unserved):
        here = [one for one in unserved if one.question.place == place]
        here = _simplify(here, looks[place])
        serious = [one for one in here if one.weight is not Weight.NOTE]
        found = list(_build_indexes(serious, looks[place]))
        indexes += found
        for one in here:
            advice.append(_describe(one, looks[place], [index.keys for index in found]))
    return Combined(advice, indexes)


def _simplify(unserved: Sequence[Unserved], look: Look) -> list[Unserved]:
    """An index that leads to few documents also serves those who want still fewer of them.

    What an optional argument adds to such an index is not worth telling.
    """
    wants = {want for one in unserved if not one.question.options for want in one.wants}
    leading = [want for want in wants if any(look.is_selective(path, FEW) for path in want.equal)]
    simplified: list[Unserved] = []
    for one in unserved:
        replaced = tuple(_find_leading(want, leading) or want for want in one.wants)
        if replaced == one.wants or not one.question.options:
            simplified.append(replace(one, wants=replaced))
    return simplified


def _find_leading(want: Want, leading: Sequence[Want]) -> Want | None:
    fewer = [one for one in leading if one.equal < want.equal]
    return min(fewer, key=lambda one: (one.length, sorted(one.equal)), default=None)


def _build_indexes(serious: Sequence[Unserved], look: Look) -> Iterator[NewIndex]:
    there = {one.index.keys for one in look.indexes}
    for keys, wants in merge_wants([want for one in serious for want in one.wants]):
        if keys in there:
            continue  # which does not serve: hidden, or of some documents only
        places = dict.fromkeys(
            f"{one.question.access.app_id}: {one.question.where}{one.question.condition}"
            for one in serious
            if any(want in wants for want in one.wants)
        )
        replaced = [
            one.name
            for one in look.indexes
            if one.name != _ID and not one.constrains and is_beginning(one.index, keys)
        ]
        command = render_command(look.place, dict(keys))
        yield NewIndex(*look.place, keys, tuple(places), command, tuple(replaced))


def _describe(one: Unserved, look: Look, planned: Sequence[Keys]) -> Advice:
    question = one.question
    commands = []
    for want in one.wants:
        keys = next((keys for keys in planned if want.is_served_by(keys)), None)
        keys = next(want.arrange()) if keys is None else keys
        if any(keys == known.index.keys for known in look.indexes):
            hint = (
                "there is an index with these keys, but it is hidden, sparse, partial or collated"
            )
            return _advise(one, hint, {})
        commands.append(render_command(look.place, dict(keys)))
    if not commands:
        return _advise(one, _HINTS.get(one.kind, ""), {})
    wish = " and ".join(dict.fromkeys(commands))
    hint = wish if one.weight is not Weight.NOTE else f"if it is asked often: {wish}"
    extra: dict[str, object] = {"createIndex": commands}
    if question.options:
        extra["arguments"] = [*question.options]
    return _advise(one, hint, extra)


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


def find_idle(
    look: Look, named: set[str], used: set[str], uses: Mapping[str, Use] | None
) -> Iterator[Advice]:
    """Indexes that no app uses, and those that another one makes superfluous.

    `named` are the properties that apps find or sort by, `used` the indexes that the database takes
    for them.
    """
    if look.documents is None or look.documents < FEW:
        return
    for one in look.indexes:
        if one.name == _ID or one.constrains:
            continue
        longer = _find_longer(one, look)
        first, direction = one.index.keys[0]
        if longer is not None:
            what = f"the index {one.name} is the beginning of {longer.name}, which serves the same"
            yield _note(look, one, "redundant-index", what, "drop it, if no hint names it", uses)
        elif one.name not in used and first not in named and isinstance(direction, int | float):
            what = f"the index {one.name} is not used by any app"
            hint = "rules, REST clients and other programs may use it: look before you drop it"
            yield _note(look, one, "unused-index", what, hint, uses)


def _find_longer(index: NamedIndex, look: Look) -> NamedIndex | None:
    return next(
        (
            other
            for other in look.indexes
            if other is not index
            and other.index.complete
            and len(other.index.keys) > len(index.index.keys)
            and is_beginning(index.index, other.index.keys)
        ),
        None,
    )


def _note(
    look: Look, index: NamedIndex, kind: str, what: str, hint: str, uses: Mapping[str, Use] | None
) -> Advice:
    extra: dict[str, object] = {"index": index.name}
    use = (uses or {}).get(index.name)
    if use is not None:
        since = "" if use.since is None else f" since {use.since:%Y-%m-%d %H:%M}"
        what = f"{what} (the database has used it {use.accesses} times{since})"
        extra["accesses"] = use.accesses
    return Advice(Weight.NOTE, kind, what, "", "", hint, look.name, extra)
