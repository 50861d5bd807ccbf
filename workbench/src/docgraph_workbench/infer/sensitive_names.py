"""Sensitive fields: secrets to leave out, and personal values that become no examples.

Their names are compared word by word and as phrases, written as one word: `api_key`, `apiKey` and
`apikey` are equal. They are English, German, Spanish, French, Italian and Portuguese.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from docgraph_workbench.infer.field_names import singular, split_words


def _fold(text: str) -> str:
    """Return the text with umlauts written as one letter: `schluessel` becomes `schlussel`."""
    return text.replace("ae", "a").replace("oe", "o").replace("ue", "u")


def _list_words(text: str = "", **languages: str) -> frozenset[str]:
    return frozenset(_fold(word) for part in (text, *languages.values()) for word in part.split())


# The names of sensitive fields, by the reason why they are left out.
_LOGIN, _CARD, _OFFICIAL = (
    "it looks like a secret",
    "it looks like a number of a card or bank account",
    "it looks like an official number of a person",
)
# Also numbers: a `pin` may be one, a `tokenCount` is none.
_DIGITS: Final = {
    _LOGIN: _list_words(en="password passcode pin pincode otp totp puk", de="geheimzahl"),
    _CARD: _list_words(
        en="cvv cvv2 cvc cardnumber creditcard debitcard ccnumber ccnum ccno cardno cardnum cardnr "
        "bankaccount bankaccountnumber",
        de="kartennummer kartennr kreditkarte kreditkartennummer kreditkartennr kartenpruefnummer "
        "bankkonto bankverbindung",
        es="numtarjeta tarjetanumero numerotarjeta tarjetacredito cuentabancaria",
        fr="cartenumero numcarte cartebancaire cartecredit numerocarte comptebancaire",
        it="cartanumero numcarta cartacredito numerocarta contobancario",
        pt="cartaonumero numcartao cartaocredito numerocartao contabancaria",
    ),
    _OFFICIAL: _list_words(
        en="ssn socialsecurity socialsecuritynumber nationalid nationalinsurance nino nhsnumber "
        "passportnumber passportno passportnr passportnum passportid taxnumber taxno taxnum taxid "
        "taxpayerid tin itin vatnumber vatno vatid driverlicense driverslicense drivinglicence "
        "licensenumber",
        de="reisepassnr reisepassnummer passnr passnummer ausweisnummer ausweisnr personalausweis "
        "personalausweisnummer personalausweisnr fuehrerscheinnummer fuehrerscheinnr steuerid "
        "steueridnr steuernummer steuernr steueridentifikationsnummer ustid ustidnr ustnr "
        "umsatzsteuerid sozialversicherungsnummer sozialversicherungsnr versichertennummer svnr "
        "svnummer ahvnr ahvnummer",
        es="numeropasaporte numpasaporte documentoidentidad numeroidentidad seguridadsocial "
        "numeroseguridadsocial nuss dni nie nif cif curp rfc numerofiscal identificacionfiscal",
        fr="numeropasseport numpasseport securitesociale numerosecuritesociale nir numfiscal "
        "identifiantfiscal nosecu numsecu numerosecu nss numerotva numtva siret",
        it="numeropassaporto numpassaporto cartaidentita tesserasanitaria codicefiscale codfiscale "
        "codfisc partitaiva piva",
        pt="numeropassaporte numpassaporte cpf cnpj niss contribuinte numerocontribuinte "
        "identificacaofiscal segurancasocial numerosegurancasocial cartaocidadao",
    ),
}
_TEXTS: Final = {
    _LOGIN: _list_words(
        en="passwd pwd pw pswd psswd pword passphrase passkey secret token salt jwt hotp otpauth "
        "credential privatekey sessionkey sessionid sessid bearer cookie signature mnemonic "
        "factorseed totpseed otpseed csrf xsrf magiclink resetlink loginlink connectionstring psk",
        de="losungswort passwort kennwort geheimnis zugangsdaten",
        nl="wachtwoord",
        es="contrasena contrasenia secreto frasesemilla",
        fr="motdepasse motpasse mdp jeton",
        it="segreto paroladordine",
        pt="senha palavrapasse segredo frasesemente",
    ),
    _CARD: _list_words("iban"),
}
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
    return bool(find_reason(name, owner, is_number=is_number))


def find_reason(name: str, owner: str = "", *, is_number: bool = False) -> str:
    """Return why a field of that name is left out; empty if it is not."""
    words = _split(name)
    phrases = list(_list_phrases(words))
    for reason, names in [*_DIGITS.items(), *([] if is_number else _TEXTS.items())]:
        if not names.isdisjoint(phrases):
            return reason
    if any(map(_COMPOUND.fullmatch, phrases)):
        return _LOGIN
    if is_number:
        return ""
    is_account = words[-1:] == ["pass"] and not _ACCOUNTS.isdisjoint(words)
    if is_account or any(word.endswith(_ENDINGS) for word in words):
        return _LOGIN
    if _HASHED.isdisjoint(words):
        return ""
    return _LOGIN if _PUBLICLY_HASHED.isdisjoint({*words, *_split(owner)}) else ""


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
