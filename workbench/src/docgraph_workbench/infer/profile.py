"""Profile of a sample: fields, kinds, frequencies, some values, and the types that fit them.

Memory and time are bounded whatever the documents are: only so many fields, levels, elements and
values are read. What exceeds the bounds is counted, not stored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from bson import Binary, DBRef, Decimal128, Int64, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from docgraph.tools.data import BINARY_SUBTYPES, is_uuid
from docgraph_workbench.infer.field_names import is_name, singular, split_words, upper_snake
from docgraph_workbench.infer.sensitive_names import (
    is_about_people,
    is_random,
    is_secret_if_unique,
    is_secret_value,
    may_be_random,
)

# The kinds of stored values, and the scalar of each.
_KINDS: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    Int64: "long",
    float: "double",
    dict: "object",
    list: "array",
    datetime: "date",
    DatetimeMS: "date",
    ObjectId: "objectId",
    Decimal128: "decimal",
    Timestamp: "timestamp",
    Regex: "regex",
    bytes: "binary",
    DBRef: "dbRef",
}
SCALARS: Final = {
    "string": "String",
    "bool": "Boolean",
    "int": "Int",
    "long": "Long",
    "double": "Float",
    "date": "DateTime",
    "objectId": "ObjectId",
    "decimal": "Decimal128",
    "timestamp": "Timestamp",
    "regex": "Regex",
    "uuid": "UUID",
    "binary": "ID",
    "dbRef": "BsonDocument",
}
_NOT_IN_ID: Final = frozenset({"regex", "dbRef"})
NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})
_COMMON: Final = (
    (frozenset({"int", "long"}), "Long"),
    (frozenset({"int", "long", "double"}), "Float"),
    (frozenset({"int", "long", "decimal"}), "Decimal128"),
    (frozenset({"string", "objectId"}), "String"),
)
_DATE_TEXT: Final = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"
)


def kind_of(value: Any) -> str:
    """Return the kind of a value, similar to MongoDB's names; `other` if no scalar fits."""
    if value is None:
        return "null"
    if isinstance(value, Binary):
        is_shown = value.subtype in BINARY_SUBTYPES
        return "uuid" if is_uuid(value) else "binary" if is_shown else "other"
    return _KINDS.get(type(value), "other")


def choose_scalar(kinds: Collection[str]) -> str | None:
    """Return the scalar that represents all of these kinds; None if there is none."""
    if len(kinds) == 1:
        return SCALARS.get(next(iter(kinds)))
    present = set(kinds)
    return next((scalar for common, scalar in _COMMON if present <= common), "ID")


def find_shown(kinds: Collection[str]) -> set[str]:
    """Return the kinds that have a scalar; of several kinds, those that `ID` shows."""
    shown = {kind for kind in kinds if kind in SCALARS}
    return shown - _NOT_IN_ID if len(shown) > 1 else shown


MAX_DEPTH: Final = 8
_MAX_FIELDS: Final = 2_500  # of one object
_MAX_ALL_FIELDS: Final = 6_000  # of one collection
_MAX_VALUES: Final = 200  # of one field
_MAX_ALL_VALUES: Final = 200_000  # of one collection
_MAX_ELEMENTS: Final = 20  # of one array
_MAX_STEPS: Final = 20_000  # in one document
_LONGEST_TEXT: Final = 100
_NEARLY_ALL: Final = 0.9
_COMPARED: Final = frozenset(
    {"string", "int", "long", "double", "objectId", "uuid", "date", "bool"}
)


@dataclass(slots=True)
class Seen:
    """A field, or the elements of an array: what the sample has there."""

    count: int = 0  # occurrences, null or not
    nulls: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    values: dict[Hashable, int] = field(default_factory=dict)
    overflowed: bool = False  # there were more values than were stored
    is_prose: bool = False  # there were long strings
    dates: int = 0  # strings that are dates
    secrets: int = 0  # strings that are hashes of passwords, keys or tokens
    random: int = 0  # strings that were drawn at random
    shape: Shape | None = None
    elements: Seen | None = None

    @property
    def filled(self) -> int:
        """How often there was a value."""
        return self.count - self.nulls

    def holds_secrets(self, name: str, owner: str) -> bool:
        """Return whether its values, or those of its elements, look like secrets."""
        if self.elements is not None and self.elements.holds_secrets(name, owner):
            return True
        texts, is_number = self.kinds["string"], self.kinds.keys() <= NUMBERS
        if not texts and not is_number:
            return False
        if self.secrets * 2 > texts:
            return True
        if not self.overflowed and len(self.values) < self.filled * _NEARLY_ALL:
            return False  # its values repeat
        is_random = self.random * 2 > texts and not may_be_random(name, owner)
        return is_random or is_secret_if_unique(name, is_number=is_number)

    @property
    def is_empty(self) -> bool:
        """Whether its kind is unknown: always null, or always an empty array."""
        if set(self.kinds) == {"array"}:
            return self.elements is None or self.elements.is_empty
        return not self.kinds


@dataclass(slots=True)
class Shape:
    """Objects at one path: how many, and their fields in the order of appearance."""

    count: int = 0
    fields: dict[str, Seen] = field(default_factory=dict)
    omitted: int = 0  # occurrences of fields beyond the bound

    def walk(self, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Seen]]:
        """Yield all fields with their paths, those of objects in arrays included.

        Arrays of arrays are left out: no filter of the database reaches into them.
        """
        for name, seen in self.fields.items():
            field_path = (*path, name)
            yield field_path, seen
            inner = seen.shape or (seen.elements.shape if seen.elements else None)
            if inner is not None:
                yield from inner.walk(field_path)

    def find(self, path: tuple[str, ...]) -> Seen | None:
        """Return the field at a path."""
        seen = self.fields.get(path[0])
        inner = None if seen is None else seen.shape or (seen.elements and seen.elements.shape)
        return seen if len(path) == 1 or not inner else inner.find(path[1:])


class Profile:
    """The sampled documents of one collection."""

    def __init__(self) -> None:
        self.shape = Shape()
        self._fields_left = _MAX_ALL_FIELDS
        self._values_left = _MAX_ALL_VALUES
        self._steps_left = 0

    @property
    def documents(self) -> int:
        """How many documents were sampled."""
        return self.shape.count

    def add_all(self, documents: Iterable[dict[str, Any]]) -> None:
        """Add more documents."""
        for document in documents:
            self._steps_left = _MAX_STEPS
            self._add_object(self.shape, document, 0)

    def add_id(self, value: Any) -> None:
        """Add the `_id` of a document of which nothing else is known."""
        seen = self.shape.fields.get("_id")
        if seen is not None:
            seen.kinds[kind_of(value)] += 1

    def _add_object(self, shape: Shape, document: dict[str, Any], depth: int) -> None:
        shape.count += 1
        for name, value in document.items():
            seen = shape.fields.get(name)
            if seen is None:
                if len(shape.fields) >= _MAX_FIELDS or self._fields_left <= 0:
                    shape.omitted += 1
                    continue
                self._fields_left -= 1
                seen = shape.fields[name] = Seen()
            self._add(seen, value, depth)

    def _add(self, seen: Seen, value: Any, depth: int) -> None:
        seen.count += 1
        self._steps_left -= 1
        kind = kind_of(value)
        if kind == "null":
            seen.nulls += 1
            return
        seen.kinds[kind] += 1
        if kind == "object":
            self._enter(seen, value, depth)
        elif kind == "dbRef":
            self._enter(seen, dict(value.as_doc()), depth)
        elif kind == "array":
            self._add_elements(seen, value, depth)
        elif kind in _COMPARED:
            self._keep(seen, kind, value)

    def _enter(self, seen: Seen, value: dict[str, Any], depth: int) -> None:
        if depth < MAX_DEPTH and self._steps_left > 0:
            seen.shape = seen.shape or Shape()
            self._add_object(seen.shape, value, depth + 1)

    def _add_elements(self, seen: Seen, value: list[Any], depth: int) -> None:
        if depth >= MAX_DEPTH or self._steps_left <= 0:
            return
        elements = seen.elements = seen.elements or Seen()
        for element in value[:_MAX_ELEMENTS]:
            self._add(elements, element, depth + 1)

    def _keep(self, seen: Seen, kind: str, value: Any) -> None:
        if kind == "string":
            seen.dates += _DATE_TEXT.fullmatch(value) is not None  # in ISO 8601
            seen.secrets += is_secret_value(value)
            seen.random += is_random(value[:_LONGEST_TEXT])
            if len(value) > _LONGEST_TEXT:
                seen.overflowed = seen.is_prose = True
                return
        if value in seen.values:
            seen.values[value] += 1
        elif len(seen.values) < _MAX_VALUES and self._values_left > 0:
            self._values_left -= 1
            seen.values[value] = 1
        else:
            seen.overflowed = True


_MAX_CONSTANTS: Final = 12
_FEWEST_CONSTANTS: Final = 2
_ENOUGH: Final = 50  # strings in the sample
_EACH: Final = 3  # occurrences of each: if one is rare, others are probably missing
_LONGEST: Final = 30
_SHORTEST_CONSTANT: Final = 3  # short names like `US` usually have more values than the sample
_CONSTANTS: Final = (
    re.compile(r"[a-z][a-z0-9]*([_-][a-z0-9]+)*"),
    re.compile(r"[A-Z][A-Z0-9]*([_-][A-Z0-9]+)*"),
)
_WORDS: Final = re.compile(r"[^\W\d_][^\W_]*([ _/-][^\W_]+)*")
_LONGEST_LABEL: Final = 2  # blanks
# Names of fields with constants, in English, German, Spanish, French, Italian and Portuguese.
_TELLING: Final = frozenset(
    "status type kind level role tier priority mode plan phase severity stage visibility "
    "size unit cabin gender condition reason channel method weekday salutation zustand typ stufe "
    "rolle prioritaet modus grad geschlecht einheit anrede wochentag tipo nivel rol prioridad modo "
    "fase unidad statut etat niveau priorite unite civilite livello ruolo priorita modalita "
    "situacao prioridade unidade".split()
)
# Where other languages begin a name with this word, and German ends a compound with it.
_HEADS: Final = frozenset("tipo type statut etat situacao modo metodo mode forma".split())
_COMPOUND: Final = re.compile(r".+(status|typ|zustand|ungsart|andart|enart)")
# States, of an order or of a country: their values tell.
_STATES: Final = frozenset("state estado stato".split())
# The same, if the values are written like constants.
_CLASSIFYING: Final = frozenset(
    "payment category class color colour grade frequency format result outcome scope access action "
    "season shift direction art kategorie klasse farbe categoria clase categorie classe "
    "couleur colore cor".split()
)
# Names of free texts: their words repeat by chance.
_FREE_TEXT: Final = frozenset(
    "name title text body comment description note label subject message content summary headline "
    "caption bio about city town street address country place location region brand model product "
    "word tag breed species animal food author artist titel bezeichnung beschreibung bemerkung "
    "notiz betreff nachricht kommentar inhalt ort wohnort stadt strasse land marke wort tier "
    "nombre titulo texto comentario descripcion nota asunto mensaje ciudad calle pais lugar marca "
    "palabra nom titre texte commentaire remarque objet ville rue pays lieu marque mot nome titolo "
    "testo commento descrizione oggetto messaggio citta via paese luogo parola descricao assunto "
    "mensagem cidade rua palavra".split()
)
_CONSTANT_WORDS: Final = frozenset(
    "active inactive enabled disabled open opened closed new pending done draft published archived "
    "deleted cancelled canceled approved rejected accepted declined failed success error running "
    "stopped queued processing completed complete finished started paused paid unpaid refunded "
    "shipped delivered returned confirmed expired valid invalid public private internal hidden "
    "visible low medium high critical urgent normal minor major small large yes no on off admin "
    "user guest member owner editor viewer moderator info warning debug fatal free basic pro "
    "premium enterprise trial daily weekly monthly yearly male female other unknown none progress "
    "review todo blocked resolved sent received offen geschlossen neu bezahlt storniert versandt "
    "geliefert aktiv inaktiv entwurf erledigt abierto cerrado nuevo pagado cancelado enviado "
    "entregado activo inactivo borrador pendiente ouvert ferme nouveau paye annule expedie livre "
    "actif inactif brouillon aperto chiuso nuovo pagato annullato spedito consegnato attivo "
    "inattivo bozza aberto fechado novo pago entregue ativo inativo rascunho pendente hold ready "
    "progreso created updated skipped passed bearbeitung arbeit abgeschlossen genehmigt abgelehnt "
    "ausstehend attente cours termine payee annulee expediee livree terminee proceso curso "
    "terminado aprobado rechazado attesa corso completato pagata spedita andamento concluido "
    "enviada cancelada".split()
)
_SHARE: Final = 0.05  # of distinct values among all, if only their form speaks for constants
_ENOUGH_BY_FORM: Final = 100
_CODES: Final = frozenset(
    "code coupon voucher promo promotion discount sku serial reference ref number no plate "
    "ticker symbol iata icao gate seat room batch lot".split()
)
_RESERVED: Final = frozenset({"true", "false", "null"})


def find_enum_values(
    name: str, seen: Seen, *, repeated: bool = False, is_declared: bool = False
) -> dict[str, str] | None:
    """Return the names and stored values of an enum; None if the field is not one.

    `is_declared`: the author has made it one, so that further values belong to it. Lists of strings
    are tags more often than constants: only their name can distinguish them.
    """
    values = [value for value in seen.values if isinstance(value, str)]
    if not has_few_texts(seen) or not (is_declared or _are_constants(name, seen, values)):
        return None
    if (repeated or is_about_people(name)) and not _is_telling(name):
        return None  # the names of people, of whom there will be others, or tags
    named = {upper_snake(value): value for value in sorted(values)}
    is_clear = len(named) == len(values) and all(map(is_name, named))
    return named if is_clear and _RESERVED.isdisjoint(map(str.lower, named)) else None


def has_few_texts(seen: Seen) -> bool:
    """Return whether few texts repeat: alone, that does not make them constants."""
    if set(seen.kinds) != {"string"} or seen.overflowed or seen.dates:
        return False
    is_enough = seen.filled >= _ENOUGH and min(seen.values.values(), default=0) >= _EACH
    return is_enough and _FEWEST_CONSTANTS <= len(seen.values) <= _MAX_CONSTANTS


def _are_constants(name: str, seen: Seen, texts: list[str]) -> bool:
    """Return whether the name of the field or the form of its texts speaks for constants."""
    if not all(len(text) <= _LONGEST for text in texts) or _ends_with(name, _FREE_TEXT):
        return False
    is_usual = _are_usual(texts)
    if _is_telling(name) or (is_usual and _has_head(name, _STATES)):
        are_words = all(_WORDS.fullmatch(text) for text in texts)
        return are_words and (is_usual or all(map(_is_label, texts)))
    if all(len(text) <= _SHORTEST_CONSTANT for text in texts) or _are_codes(name, texts):
        return False
    if not any(all(pattern.fullmatch(text) for text in texts) for pattern in _CONSTANTS):
        return False
    if _ends_with(name, _CLASSIFYING):
        return True
    is_enough = seen.filled >= _ENOUGH_BY_FORM and len(texts) <= seen.filled * _SHARE
    is_written = all(map(str.isupper, texts)) and any("_" in text for text in texts)
    return is_enough and (is_usual or is_written) and not _has_head(name, _STATES)


def _are_usual(texts: list[str]) -> bool:
    """Return whether half of the texts are short, and have a word of states and the like."""
    usual = sum(not _CONSTANT_WORDS.isdisjoint(split_words(text)) for text in texts)
    is_short = all(text.count(" ") <= _LONGEST_LABEL for text in texts)
    return is_short and usual * 2 >= len(texts)


def _is_label(text: str) -> bool:
    """Return whether a text is one word, or some with capitals: `Single Room` is no prose."""
    return " " not in text or (text.istitle() and text.count(" ") <= _LONGEST_LABEL)


def _is_telling(name: str) -> bool:
    """Return whether the name says that the values are constants."""
    words = split_words(name)
    is_compound = bool(words) and _COMPOUND.fullmatch(words[-1]) is not None
    return _ends_with(name, _TELLING) or is_compound or not _HEADS.isdisjoint(words[:1])


def _has_head(name: str, heads: frozenset[str]) -> bool:
    """Return whether the name begins, or ends, with one of these words."""
    words = split_words(name)
    return not heads.isdisjoint((*words[:1], *words[-1:]))


def _are_codes(name: str, texts: list[str]) -> bool:
    """Return whether the strings identify something, such as coupons: there will be others."""
    with_digits = sum(1 for text in texts if any(map(str.isdigit, text)))
    is_named = any(singular(word) in _CODES for word in split_words(name)[-1:])
    return is_named or with_digits * 2 > len(texts)


def _ends_with(name: str, words: frozenset[str]) -> bool:
    return any(not words.isdisjoint({word, singular(word)}) for word in split_words(name)[-1:])
