"""Names in databases: their words, and the names of a schema that they become."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterator, Sequence
from typing import Final

_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")
_WORD: Final = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSAFE: Final = re.compile(r"[^_0-9A-Za-z]+")
_LONGEST: Final = 80

# Plurals that no rule below forms, as `plural: singular`.
_IRREGULAR: Final = dict(
    pair.split(":")
    for pair in (
        "people:person persons:person children:child mice:mouse lice:louse geese:goose feet:foot "
        "teeth:tooth oxen:ox dice:die criteria:criterion phenomena:phenomenon bacteria:bacterium "
        "strata:stratum curricula:curriculum memoranda:memorandum addenda:addendum "
        "errata:erratum indices:index matrices:matrix vertices:vertex appendices:appendix "
        "alumni:alumnus cacti:cactus fungi:fungus nuclei:nucleus radii:radius stimuli:stimulus "
        "loci:locus syllabi:syllabus formulae:formula antennae:antenna larvae:larva axes:axis "
        "analyses:analysis theses:thesis hypotheses:hypothesis syntheses:synthesis "
        "parentheses:parenthesis crises:crisis oases:oasis diagnoses:diagnosis "
        "prognoses:prognosis synopses:synopsis quizzes:quiz buses:bus"
    ).split()
)
# Plurals of other languages, and endings that only they have. `plural` forms none of them.
_FOREIGN: Final = dict(
    pair.split(":")
    for pair in (
        "kunden:kunde produkte:produkt lieferanten:lieferant personen:person adressen:adresse "
        "kategorien:kategorie konten:konto fahrzeuge:fahrzeug auftrage:auftrag auftraege:auftrag "
        "vertrage:vertrag vertraege:vertrag bucher:buch buecher:buch stadte:stadt staedte:stadt "
        "lander:land laender:land hauser:haus haeuser:haus filialen:filiale patienten:patient "
        "studenten:student termine:termin beitrage:beitrag beitraege:beitrag projekte:projekt "
        "aufgaben:aufgabe nachrichten:nachricht dateien:datei bilder:bild orte:ort firmen:firma "
        "gerate:gerat geraete:geraet raume:raum raeume:raum mitglieder:mitglied tiere:tier "
        "ordenes:orden imagenes:imagen examenes:examen paises:pais meses:mes sucursales:sucursal "
        "hospitales:hospital animales:animal canales:canal materiales:material animaux:animal "
        "journaux:journal prodotti:prodotto clienti:cliente ordini:ordine utenti:utente "
        "fatture:fattura libri:libro articoli:articolo persone:persona"
    ).split()
)
_FOREIGN_ENDINGS: Final = (
    *(("ungen", "ung"), ("heiten", "heit"), ("keiten", "keit"), ("schaften", "schaft")),
    *(("ionen", "ion"), ("iones", "ion"), ("dades", "dad"), ("adores", "ador"), ("edores", "edor")),
    *(("idores", "idor"), ("ctores", "ctor"), ("utores", "utor"), ("fesores", "fesor")),
    *(("coes", "cao"), ("soes", "sao"), ("eaux", "eau")),
)
# Singulars by the ending of their plurals; the rules of `singular` are wrong for these.
_IN_S: Final = frozenset("canvas alias bias atlas gas lens iris plus chaos cosmos kudos".split())
_IN_IE: Final = frozenset(
    "movie cookie calorie zombie tie pie die lie brownie selfie hoodie rookie pixie prairie "
    "smoothie veggie foodie newbie indie sortie budgie junkie genie".split()
)
_IN_F: Final = frozenset("leaf shelf wolf half calf loaf scarf self elf hoof thief".split())
_IN_FE: Final = frozenset("knife wife life".split())
_IN_O: Final = frozenset(
    "hero potato tomato echo veto torpedo mosquito volcano cargo embargo mango domino".split()
)
_IN_CHE: Final = frozenset("cache niche ache headache avalanche cliche quiche creche".split())
_IN_USE: Final = frozenset("use excuse fuse muse abuse ruse recluse reuse".split())
_IN_I_OR_U: Final = frozenset(
    "menu submenu guru emu haiku bureau plateau tableau cpu gpu tpu vcpu mcu sku caribou "
    "taxi ski kiwi emoji api uri kpi poi wiki rabbi safari alibi bikini".split()
)
_SHORT: Final = frozenset("ad id tv pc vm ip cd cv pr".split())  # others of two letters are none
_NOT_OF_MEN: Final = frozenset("specimen regimen abdomen omen stamen ramen acumen".split())
_IN_MAN: Final = frozenset("human roman german shaman talisman".split())
_UNCHANGED: Final = frozenset(
    "news series species gps sms dns aws ios analytics logistics physics mathematics economics "
    "electronics politics athletics media data metadata equipment information inventory staff "
    "software hardware sheep fish feedback traffic weather history telemetry aircraft spacecraft "
    "means headquarters corps goods jeans pants scissors".split()
)
_PLURALS: Final = {single: many for many, single in _IRREGULAR.items() if many != "persons"}


def split_words(name: str) -> list[str]:
    """Return the words of a name in lower case: `orderItems` and `order_items` are equal."""
    return [word.lower() for word in _WORD.findall(_without_accents(name))]


def singular(word: str) -> str:
    """Return the singular of a plural, English or well-known; other words unchanged."""
    if word in _IRREGULAR or word in _FOREIGN:
        return _IRREGULAR.get(word) or _FOREIGN[word]
    for many, single in _FOREIGN_ENDINGS:
        if word.endswith(many):
            return word.removesuffix(many) + single
    if word in _UNCHANGED or word in _IN_S:
        return word
    if word.endswith("men") and word not in _NOT_OF_MEN:
        return f"{word[:-2]}an"
    if not word.endswith("s") or (len(word) <= 3 and word[:-1] not in _SHORT):  # noqa: PLR2004 - "gas"
        return word
    if word.endswith(("us", "is")):
        return word[:-1] if word[:-1] in _IN_I_OR_U else word
    return _without_ending(word)


def _without_ending(word: str) -> str:
    """Return the singular of a word with `s`, by its ending."""
    if word.endswith("ss"):
        return word
    if word.endswith("ies"):
        return word[:-1] if word[:-1] in _IN_IE else f"{word[:-3]}y"
    if word.endswith("ves"):
        stem = word[:-3]
        return next(
            (f"{stem}{f}" for f in ("f", "fe") if f"{stem}{f}" in _IN_F | _IN_FE), word[:-1]
        )
    if word.endswith("uses"):
        is_short = not word.endswith(("ouses", "auses")) and word[:-1] not in _IN_USE
        return word[:-2] if is_short else word[:-1]
    if word[:-2] in _IN_S or word[:-2] in _IN_O:
        return word[:-2]
    if word.endswith(("sses", "ches", "shes", "xes", "zzes", "tzes")):
        return word[:-1] if word[:-1] in _IN_CHE else word[:-2]
    return word[:-1]


def plural(word: str) -> str:
    """Return the plural of an English word."""
    if word in _PLURALS:
        return _PLURALS[word]
    if word in _UNCHANGED or singular(word) != word:
        return word
    if word in _IN_F | _IN_FE:
        return f"{word.removesuffix('e')[:-1]}ves"
    if word.endswith("man") and f"{word[:-2]}en" not in _NOT_OF_MEN:
        return f"{word}s" if word in _IN_MAN else f"{word[:-2]}en"
    if word.endswith("y") and word[-2:-1] not in ("", *"aeiou"):
        return f"{word[:-1]}ies"
    if word.endswith(("s", "x", "ch", "sh", "z")) or word in _IN_O:
        return f"{word}es"
    return f"{word}s"


def pascal(words: Sequence[str]) -> str:
    """Return the words as a name of a type."""
    return "".join(word[:1].upper() + word[1:] for word in words)


def camel(words: Sequence[str]) -> str:
    """Return the words as a name of a field."""
    return safe_name("".join([*words[:1], pascal(words[1:])]))


def upper_snake(text: str) -> str:
    """Return the text as a name of an enum value; empty if it has no letters or digits."""
    if is_name(text) and (text.isupper() or text.islower()):
        return text.upper()  # `A320` is one word, and so is `b2b`
    return "_".join(word.upper() for word in split_words(text))


def is_name(text: str) -> bool:
    """Return whether GraphQL accepts it as a name that is not reserved."""
    return _NAME.fullmatch(text) is not None and not text.startswith("__")


def safe_name(text: str) -> str:
    """Return the nearest name that GraphQL accepts."""
    if is_name(text):
        return text
    safe = _UNSAFE.sub("_", _without_accents(text)).strip("_")[:_LONGEST]
    if not safe:
        return "field"
    return f"_{safe}" if safe[0].isdigit() else safe


class NamePool:
    """Names of one scope, each given once."""

    def __init__(self, taken: Container[str] = ()) -> None:
        self._reserved = taken
        self._taken: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._taken or name in self._reserved

    def claim(self, *wishes: str) -> str:
        """Return the first wish that is free, or the last one with a number."""
        name = next(name for name in _attempts(wishes) if name not in self)
        self._taken.add(name)
        return name


def _without_accents(text: str) -> str:
    """Return the text in English letters: `größe` becomes `grosse`."""
    if text.isascii():
        return text
    apart = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    return "".join(character for character in apart if not unicodedata.combining(character))


def _attempts(wishes: Sequence[str]) -> Iterator[str]:
    yield from wishes
    number = 1
    while True:
        number += 1
        yield f"{wishes[-1]}{number}"
