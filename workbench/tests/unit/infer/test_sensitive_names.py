"""Secrets and personal values are known by their names and by their form."""

from __future__ import annotations

import pytest

from docgraph_workbench.infer.sensitive_names import (
    find_reason,
    is_about_people,
    is_personal,
    is_random,
    is_secret,
    is_secret_if_unique,
    is_secret_value,
)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("taxNumber tax_id steuernummer numero_fiscal numéroFiscal codiceFiscale nif", "official"),
        ("no_secu numéroSécu numéro_de_TVA siret", "official"),
        ("partita_iva partitaIVA p_iva cod_fiscale codice_fiscale tessera_sanitaria", "official"),
        ("steuer_nr SteuerNummer ust_id ustIdNr umsatzsteuer_id sv_nr ahvNummer", "official"),
        ("vat_number vatId nhs_number cif rfc numero_de_seguridad_social cnpj niss", "official"),
        ("ssn nationalId sozialversicherungsnummer dni numéro_de_sécurité_sociale cpf", "official"),
        ("iban bankAccount kartennummer cuenta_bancaria compte_bancaire conta_bancária", "card"),
        ("contoBancario carta_credito cvv", "card"),
        ("password kennwort contraseña mot_de_passe parola_segreta senha pin", "secret"),
        ("taxRate tax taxonomy number accountId email vatRate iva tva cifra specific", ""),
    ],
)
def test_sensitive_names_have_a_reason_in_six_languages(names: str, reason: str) -> None:
    for name in names.split():
        found = find_reason(name)
        assert reason in found, name
        assert bool(found) is bool(reason), name


@pytest.mark.parametrize(
    "name",
    (
        "password passwordHash api_key accessToken client-secret apikey salt pin PIN pw passwort "
        "mot_de_passe motDePasse contraseña sessionId session_id resetCode bearer cookie cookies "
        "signature mnemonic ssn cardNumber card_number passportNumber hash otpSecret recoveryCodes "
        "authKey privKey otpauth frase_semilla codigo_recuperacion clave_secreta geheimnis "
        "zugangscode api-schluessel API-Schlüssel Zugangsschlüssel benutzerkennwort dni mdp senha "
        "secondFactorSeed userPass smtp_pass dbpassword accesstoken código_de_recuperación "
        "chave_privada chaveDeAcesso clé_privée cleApi numéro_de_carte codice_fiscale "
        "chiave_segreta codice_di_sicurezza phrase_de_recuperation cartão_de_crédito "
        "numero_de_tarjeta kreditkartennummer appKey sshKey walletSeed seedWords securityAnswer "
        "unlockCode einmalcode llave_privada chiave_privata parola_segreta csrf magicLink puk "
        "reisepassNr passport_nr número_de_pasaporte numero_passaporto numéro_de_passeport cc_num "
        "ausweisNr personalausweis steuerId tessera_sanitaria karten_nr num_tarjeta carte_numero "
        "respuesta_secreta rispostaSegreta réponse_secrète securityQuestion geheime_antwort aesKey "
        "sicherheitsfrage zugriffsschluessel entsperrcode wlan_key psk iban kontoIban carta.numero"
    ).split(),
)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize(
    "name",
    (
        "hashtags tokenizer secretary keyboard passenger commitHash git_hash contentHash geohash "
        "shipping pinned spinner sessions cardType passport number author passage side standard "
        "assignee compass bypass pass_rate passing tango titan keyFactors publicKey primaryKey "
        "sortKey postcode countryCode code key keyword refreshRate sidebar accessLevel security "
        "authority design secretariat clave_producto barcode sessionType cardholder monkey "
        "apiVersion masterId episode privateNotes backup pass sid seed losung Auflösung"
    ).split(),
)
def test_a_name_that_only_begins_like_a_secret_is_none(name: str) -> None:
    assert not is_secret(name)


def test_the_hash_of_a_commit_is_no_secret() -> None:
    assert not is_secret("hash", "commits")
    assert not is_secret("parentHashes", "Commit")
    assert is_secret("hash", "users")


def test_a_number_is_a_secret_only_under_some_names() -> None:
    assert is_secret("pin", is_number=True)
    assert is_secret("cardNumber", is_number=True)
    assert not is_secret("tokenCount", is_number=True)


@pytest.mark.parametrize("name", "pass sid tan seed refresh tarjeta pan passport losung".split())
def test_an_ambiguous_name_is_a_secret_if_the_values_differ(name: str) -> None:
    assert is_secret_if_unique(name)
    assert not is_secret_if_unique(f"{name}Count")
    assert is_secret_if_unique(name, is_number=True) == (name == "tan")


@pytest.mark.parametrize("name", ["Lösung", "loesung"])
def test_a_solution_is_no_watchword(name: str) -> None:
    assert not is_secret_if_unique(name)


@pytest.mark.parametrize(
    "text",
    [
        "$2b$12$abc",
        "$2a$10$N9qo8uLOickgx2ZMRZoMye",
        "$argon2id$v=19$m=65536",
        "$6$rounds=5000$salt$hash",
        "{SSHA}DkMTwBl+a/3DQTxCYEApdUtNXGgdUac3",
        "pbkdf2_sha256$260000$salt$hash",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.x",
        "-----BEGIN RSA PRIVATE KEY-----",
        "otpauth://totp/a?secret=b",
        "mongodb://ada:pw@db.example.org/shop",
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "AKIAIOSFODNN7EXAMPLE",
        "https://hooks.slack.com/services/T0/B0/0123456789abcdef01234567",
        "https://discord.com/api/webhooks/123456789012345678/k3J9xQ2mZp7LwT4vBn8R",
        "https://acme.webhook.office.com/webhookb2/64b5c0de-64b5-40de-84b5-c0de64b5c0de@x/y",
        "https://x.example/login?next=a&token=4f1c",
        "https://x.example/a#access_token=4f1c",
        "https://b.example/o?X-Amz-Signature=4f1c",
        "http://x.example/?apiKey=4f1c",
        " ".join(["abandon"] * 11 + ["about"]),
    ],
)
def test_a_secret_is_known_by_its_form(text: str) -> None:
    assert is_secret_value(text)


@pytest.mark.parametrize(
    "text",
    [
        "red",
        "$5 off",
        "otp",
        "-----BEGIN PUBLIC KEY-----",
        "eyJ",
        "the quick brown fox",
        "https://a.org/b:c@d",
        "https://docs.example.org/webhooks/introduction",
        "https://a.org/books.html?page=2&tokens=7",
        "https://a.org/what-is-a-token",
        "",
    ],
)
def test_ordinary_texts_are_no_secrets(text: str) -> None:
    assert not is_secret_value(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5f4dcc3b5aa765d61d8327deb882cf99", True),
        ("JBSWY3DPEHPK3PXP", True),
        ("k3J9xQ2mZp7LwT4vBn8R", True),
        ("aGVsbG8gd29ybGQgaGVsbG8=", True),
        ("a-tale-of-two-cities-2020", False),
        ("ProductImage2020Final", False),
        ("SuperLongProductNameForTheSummerCollection", False),
        ("DE89370400440532013000", False),
        ("550e8400-e29b-41d4-a716-446655440000", False),
        ("BOEING737MAX800WINGLET", False),
        ("2024-05-31T12:00:00.000Z", False),
        ("ABCDEFGHIJKLMNOPQRST", False),
    ],
)
def test_random_texts_are_known(text: str, *, expected: bool) -> None:
    assert is_random(text) == expected


def test_what_tells_of_people_gives_no_examples() -> None:
    assert is_personal("contactEmail")
    assert is_personal("phone_number")
    assert is_personal("geburtsdatum")
    assert is_personal("correo")
    assert not is_personal("color")


@pytest.mark.parametrize(
    "name", "users Kunden clientes utenti utilisateurs alunos createdBy".split()
)
def test_people_are_known_in_several_languages(name: str) -> None:
    assert is_about_people(name)
    assert not is_about_people("products")
