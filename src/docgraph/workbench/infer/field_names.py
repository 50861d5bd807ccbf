"""Names in databases: their words, the names of a schema that they become, and sensitive ones.

Sensitive fields are secrets to leave out, and personal values that become no examples. Their names
are compared word by word and as phrases, written as one word: `api_key`, `apiKey` and `apikey` are
equal. They are English, German, Spanish, French, Italian and Portuguese.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable, Iterator, Sequence
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
_PLURALS: Final = {one: many for many, one in _IRREGULAR.items() if many != "persons"}


def split_words(name: str) -> list[str]:
    """Return the words of a name in lower case: `orderItems` and `order_items` are equal."""
    return [word.lower() for word in _WORD.findall(_without_accents(name))]


def singular(word: str) -> str:
    """Return the singular of a plural, English or well-known; other words unchanged."""
    if word in _IRREGULAR or word in _FOREIGN:
        return _IRREGULAR.get(word) or _FOREIGN[word]
    for many, one in _FOREIGN_ENDINGS:
        if word.endswith(many):
            return word.removesuffix(many) + one
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
    return "".join(one for one in apart if not unicodedata.combining(one))


def _attempts(wishes: Sequence[str]) -> Iterator[str]:
    yield from wishes
    number = 1
    while True:
        number += 1
        yield f"{wishes[-1]}{number}"


# --- sensitive names and values -------------------------------------------------------------------


def _fold(text: str) -> str:
    """Return the text with umlauts written as one letter: `schluessel` becomes `schlussel`."""
    return text.replace("ae", "a").replace("oe", "o").replace("ue", "u")


def _list_words(text: str) -> frozenset[str]:
    return frozenset(map(_fold, text.split()))


# Secrets, also numbers: a `pin` may be one, a `tokenCount` is none.
_DIGITS: Final = _list_words(
    "password passcode pin pincode otp totp cvv cvv2 cvc ssn socialsecurity cardnumber creditcard "
    "debitcard ccnumber ccnum ccno cardno cardnum cardnr nationalid passportnumber passportno "
    "passportnr passportnum passportid numeropasaporte numpasaporte numeropasseport numpasseport "
    "numeropassaporto numpassaporto numeropassaporte numpassaporte reisepassnr reisepassnummer "
    "passnr passnummer puk geheimzahl kartennummer kartennr kreditkarte kreditkartennummer "
    "kreditkartennr kartenpruefnummer ausweisnummer ausweisnr personalausweis "
    "personalausweisnummer personalausweisnr steuerid steueridentifikationsnummer "
    "sozialversicherungsnummer sozialversicherungsnr versichertennummer cartaidentita "
    "tesserasanitaria documentoidentidad numtarjeta tarjetanumero cartenumero numcarte "
    "cartanumero numcarta cartaonumero numcartao seguridadsocial dni cpf curp nif numerotarjeta "
    "tarjetacredito cartebancaire cartecredit numerocarte securitesociale codicefiscale "
    "cartacredito numerocarta cartaocredito numerocartao"
)
_SECRET: Final = _DIGITS | _list_words(
    "passwd pwd pw pswd psswd pword passphrase passkey secret token salt jwt hotp otpauth "
    "credential privatekey sessionkey sessionid sessid bearer cookie signature mnemonic "
    "factorseed totpseed otpseed csrf xsrf magiclink resetlink loginlink connectionstring psk "
    "losungswort passwort kennwort geheimnis zugangsdaten wachtwoord contrasena contrasenia "
    "secreto frasesemilla motdepasse motpasse mdp jeton segreto paroladordine senha palavrapasse "
    "segredo frasesemente iban"
)
_ENDINGS: Final = tuple(_list_words("password passwort kennwort passwd secret token geheimnis"))
# Words as `_fold` leaves them: `as` is AES, `qustion` is question.
_COMPOUND: Final = re.compile(
    "(secret|priv(ate?)?|api|auth|access|recovery|security|reset|verification|activation|backup"
    "|master|signing|encryption|login|sms|seed|mfa|wallet|unlock|invite|puk|zugang|sicherheit"
    "|wiederherstellung|aktivierung|geheim|einmal|freischalt|entsperr|zugriff|verify|onetime)"
    "(s|er?)?(key|code|phrase|word|answer|qustion|seed|schlussel|antwort|frage)"
    "|(consumer|app|hmac|as|enc|crypto|wlan|wifi|rsa|ssh|pgp|gpg|tls|ssl|aws|azure|licen[cs]e"
    "|certificate)key"
    "|(clave|llave|cle|chiave|chave|codigo|codice|code|frase|phrase|palabra|parola|palavra|mot"
    "|respusta|reponse|risposta|resposta|pregunta|qustion|domanda|pergunta)"
    "(secret[aoe]?|segret[ao]|priva[dt]?[ao]|privee|api|acc?es+o?|recuper(acion|ation|o|acao)"
    "|segur(idad|anca)|securite|sicurezza|verific(acion|ation|a|acao))"
)
# Secrets if the values differ from each other: `pass` and `refresh` have other meanings, too.
_AMBIGUOUS: Final = _list_words(
    "pass sid tan seed refresh tarjeta cartao pan passport reisepass pasaporte passeport "
    "passaporto passaporte losung"
)
_ACCOUNTS: Final = _list_words(
    "user db database smtp imap ftp admin login root mail wifi wlan client account auth proxy"
)
_CONNECTING: Final = frozenset("de di do da del della des du d la le of the".split())
_HASHED: Final = frozenset("hash hashed".split())
# The hash of one of these is no secret: it identifies something, or detects changes of it.
_PUBLICLY_HASHED: Final = frozenset(
    "commit git revision rev tree parent head merge branch block tx transaction merkle content "
    "file image artifact package layer asset blob chunk url link geo sha md5 crc checksum".split()
)
# Random texts are no secrets under these names.
_IDENTIFYING: Final = _PUBLICLY_HASHED | frozenset(
    "id uuid guid oid ref reference etag digest fingerprint version trace span request correlation "
    "address wallet contract cid thumbhash blurhash polyline path slug photo avatar video audio "
    "document hash number no serial sku public thumbnail icon logo picture cover data".split()
)
_LONGEST_PHRASE: Final = 3  # words
PEOPLE: Final = _list_words(
    "user person people account member customer client employee author staff player contact owner "
    "creator writer editor assignee reporter reviewer sender recipient director actor artist "
    "producer composer performer singer speaker host coach trainer captain pilot nurse tutor "
    "patient student teacher passenger guest driver doctor visitor attendee participant winner "
    "subscriber applicant candidate designer photographer translator seller buyer payer manager "
    "profile tenant resident citizen voter donor admin administrator operator agent lead "
    "beneficiary insured borrower child parent kunde benutzer nutzer mitarbeiter mitglied schueler "
    "lehrer gast gaeste fahrer spieler arzt aerzte bewerber eigentuemer mieter usuario cliente "
    "persona empleado paciente alumno estudiante profesor miembro autor conductor huesped invitado "
    "dueno utilisateur personne employe eleve etudiant membre auteur salarie adherent utente "
    "dipendente dipendenti paziente pazienti studente studenti membro membri alunno alunni socio "
    "soci utilizador pessoa funcionario aluno estudante"
)
_NAMED: Final = PEOPLE | {"by", "username", "login", "nickname"}
_PERSONAL: Final = _NAMED | _list_words(
    "email mail phone mobile fax tel telephone ssn bic swift card "
    "address street line1 line2 zip zipcode postcode postal birthday birth dob born passport "
    "license licence tax vat ip username login nickname name first last full surname "
    "firstname lastname fullname salary wage income balance latitude longitude lat lon lng "
    "coordinates diagnosis health gender religion ethnicity national nationality age key "
    "session device mac imei url link avatar photo text body comment message note by "
    "vorname nachname geburtstag geburtsdatum strasse plz telefon handy adresse anschrift gehalt "
    "kontonummer notiz nombre apellido direccion calle telefono movil correo nacimiento salario "
    "nom prenom rue naissance courriel salaire nome cognome indirizzo nascita stipendio cellulare "
    "endereco sobrenome nascimento morada von por par"
)
_SECRET_VALUE: Final = re.compile(
    r"\$(2[abxy]?|1|5|6|y|argon2\w*|pbkdf2\S*|scrypt)\$|\{[A-Z0-9-]*(SHA|CRYPT|MD5)[0-9]*\}"
    r"|(pbkdf2|bcrypt|argon2|scrypt)\w*[$:]|eyJ[\w-]+\.eyJ|-----BEGIN [A-Z ]*(PRIVATE|ENCRYPTED)"
    r"|[a-z][a-z0-9+.-]*://[^/\s:@]+:[^/\s@]+@|otpauth(-migration)?:|[sr]k_(live|test)_|gh[pousr]_\w{20}|github_pat_|glpat-|xox[abprs]-"
    r"|https?://\S{0,200}\b(web)?hook\w*[./]\S{0,200}[\w-]{16}"
    r"|https?://\S{0,2000}[?&#;](?i:[\w.-]*(token|secret|passw(or)?d|pwd|signature|api[_-]?key)|sig)="
    r"|AKIA[0-9A-Z]{16}\Z|AIza[\w-]{30}|age-secret-key-|(?:[a-z]{3,8} ){11,23}[a-z]{3,8}\Z",
    re.ASCII,
)
_HEX: Final = re.compile(r"[0-9a-f]{32,}|[0-9A-F]{32,}")
_BASE32: Final = re.compile(r"(?=[A-Z]*[2-7])(?=[2-7]*[A-Z])[A-Z2-7]{16,}=*")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_=-]{20,}")
_SWITCH: Final = re.compile(r"[a-z](?=[A-Z0-9])|[A-Z](?=[0-9])|[0-9](?=[A-Za-z])")
_SWITCHES: Final = 0.25  # per character: random texts have 0.4, names in camel case 0.15


def is_secret(name: str, owner: str = "", *, is_number: bool = False) -> bool:
    """Return whether a field of that name has secrets; `owner` names the collection or type."""
    words = _split(name)
    phrases = list(_list_phrases(words))
    if not _DIGITS.isdisjoint(phrases) or any(map(_COMPOUND.fullmatch, phrases)):
        return True
    if is_number:
        return False
    if not _SECRET.isdisjoint(phrases) or any(word.endswith(_ENDINGS) for word in words):
        return True
    if words[-1:] == ["pass"] and not _ACCOUNTS.isdisjoint(words):
        return True
    if _HASHED.isdisjoint(words):
        return False
    return _PUBLICLY_HASHED.isdisjoint({*words, *_split(owner)})


def is_secret_if_unique(name: str, *, is_number: bool = False) -> bool:
    """Return whether a field of that name has secrets if its values differ from each other."""
    words = _split(name)
    if words == ["losung"] and "losung" not in name.lower():
        return False  # "Lösung": a solution, no watchword
    return len(words) == 1 and words[0] in ({"tan"} if is_number else _AMBIGUOUS)


def is_secret_value(text: str) -> bool:
    """Return whether a text is the hash of a password, a key or a token, by its form."""
    return _SECRET_VALUE.match(text) is not None


def is_random(text: str) -> bool:
    """Return whether a text has been drawn at random, most likely: hexadecimal, base32, base64."""
    if _HEX.fullmatch(text) or _BASE32.fullmatch(text):
        return True
    if not _BASE64.fullmatch(text):
        return False
    return len(_SWITCH.findall(text)) >= len(text) * _SWITCHES


def may_be_random(name: str, owner: str = "") -> bool:
    """Return whether random texts in a field of that name identify something: no secrets."""
    if name == "_id" and (is_secret(owner) or "session" in _split(owner)):
        return False
    is_named = not _IDENTIFYING.isdisjoint(_split(name))
    return is_named or not _PUBLICLY_HASHED.isdisjoint(_split(owner))


def is_personal(path: str) -> bool:
    """Return whether values of the field may be personal, so that none becomes an example."""
    return not _PERSONAL.isdisjoint(_list_phrases(_split(path)))


def is_about_people(name: str) -> bool:
    """Return whether a collection or field of that name is about people: all values are theirs."""
    return not _NAMED.isdisjoint(_split(name))


def _split(name: str) -> list[str]:
    return [_fold(singular(word)) for word in split_words(name)]


def _list_phrases(words: list[str]) -> Iterable[str]:
    words = [word for word in words if word not in _CONNECTING] or words
    for start in range(len(words)):
        for end in range(start + 1, start + 1 + _LONGEST_PHRASE):
            yield "".join(words[start:end])
