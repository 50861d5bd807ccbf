"""Names of the schema out of names of the database."""

from __future__ import annotations

import pytest

from docgraph.workbench.infer.field_names import (
    NamePool,
    is_about_people,
    is_name,
    is_personal,
    is_random,
    is_secret,
    is_secret_if_unique,
    is_secret_value,
    plural,
    safe_name,
    singular,
    split_words,
    upper_snake,
)

# Words that name collections, as `singular:plural`.
_WORDS = (
    "menu:menus lens:lenses canvas:canvases movie:movies person:people child:children order:orders "
    "category:categories company:companies address:addresses status:statuses bus:buses "
    "campus:campuses virus:viruses bonus:bonuses box:boxes tax:taxes index:indices match:matches "
    "branch:branches batch:batches dish:dishes class:classes process:processes business:businesses "
    "glass:glasses quiz:quizzes leaf:leaves shelf:shelves wolf:wolves knife:knives wife:wives "
    "life:lives half:halves thief:thieves loaf:loaves scarf:scarves wave:waves curve:curves "
    "archive:archives drive:drives olive:olives native:natives sleeve:sleeves glove:gloves "
    "valve:valves reserve:reserves hero:heroes potato:potatoes tomato:tomatoes echo:echoes "
    "photo:photos video:videos logo:logos piano:pianos shoe:shoes cache:caches niche:niches "
    "church:churches house:houses warehouse:warehouses course:courses nurse:nurses horse:horses "
    "response:responses expense:expenses license:licenses lease:leases release:releases "
    "purchase:purchases database:databases base:bases case:cases phase:phases disease:diseases "
    "exercise:exercises cause:causes clause:clauses spouse:spouses use:uses excuse:excuses "
    "fuse:fuses analysis:analyses thesis:theses hypothesis:hypotheses crisis:crises "
    "diagnosis:diagnoses axis:axes criterion:criteria phenomenon:phenomena matrix:matrices "
    "vertex:vertices appendix:appendices radius:radii alumnus:alumni man:men woman:women "
    "fireman:firemen salesman:salesmen human:humans specimen:specimens regimen:regimens mouse:mice "
    "goose:geese foot:feet tooth:teeth taxi:taxis ski:skis emoji:emojis api:apis uri:uris kpi:kpis "
    "cpu:cpus gpu:gpus sku:skus guru:gurus bureau:bureaus alias:aliases bias:biases atlas:atlases "
    "gas:gases ad:ads id:ids tv:tvs pc:pcs vm:vms key:keys day:days toy:toys survey:surveys "
    "journey:journeys party:parties city:cities country:countries cookie:cookies calorie:calories "
    "zombie:zombies tie:ties pie:pies selfie:selfies brownie:brownies entry:entries "
    "inventory:inventory history:history news:news series:series species:species data:data "
    "metadata:metadata media:media equipment:equipment information:information software:software "
    "aircraft:aircraft sheep:sheep fish:fish analytics:analytics logistics:logistics "
    "physics:physics metric:metrics topic:topics clinic:clinics mechanic:mechanics "
    "product:products "
    "customer:customers invoice:invoices price:prices office:offices service:services "
    "device:devices slice:slices size:sizes prize:prizes maze:mazes waltz:waltzes page:pages "
    "image:images language:languages message:messages user:users role:roles rule:rules note:notes "
    "vote:votes event:events ticket:tickets flight:flights airport:airports runway:runways "
    "sensor:sensors reading:readings block:blocks author:authors editor:editors review:reviews "
    "comment:comments reply:replies story:stories delivery:deliveries supply:supplies "
    "currency:currencies agency:agencies policy:policies salary:salaries query:queries "
    "library:libraries factory:factories battery:batteries gallery:galleries essay:essays "
    "delay:delays relay:relays array:arrays holiday:holidays employee:employees "
    "committee:committees coffee:coffees fee:fees tree:trees knee:knees degree:degrees pass:passes "
    "boss:bosses loss:losses dress:dresses mess:messes access:accesses success:successes "
    "witness:witnesses sheet:sheets wish:wishes crash:crashes flash:flashes patch:patches "
    "switch:switches watch:watches stitch:stitches beach:beaches coach:coaches lunch:lunches "
    "fox:foxes mix:mixes suffix:suffixes prefix:prefixes census:censuses corpus:corpuses "
    "focus:focuses plus:pluses iris:irises ox:oxen die:dice "
)


@pytest.mark.parametrize(("one", "many"), [pair.split(":") for pair in _WORDS.split()])
def test_a_collection_is_called_by_the_plural_of_its_documents(one: str, many: str) -> None:
    assert singular(many) == one
    assert plural(one) == many
    assert singular(one) == one


@pytest.mark.parametrize(
    ("many", "one"),
    [
        pair.split(":")
        for pair in (
            "kunden:kunde bestellungen:bestellung rechnungen:rechnung produkte:produkt "
            "kategorien:kategorie stationen:station eigenschaften:eigenschaft benutzer:benutzer "
            "staedte:stadt artikel:artikel ciudades:ciudad opiniones:opinion "
            "reservaciones:reservacion "
            "proveedores:proveedor autores:autor profesores:profesor ordenes:orden pedidos:pedido "
            "usuarios:usuario avaliacoes:avaliacao tableaux:tableau prodotti:prodotto"
        ).split()
    ],
)
def test_plurals_of_other_languages_are_known(many: str, one: str) -> None:
    assert singular(many) == one


@pytest.mark.parametrize("word", ["gas", "bus", "class", "status", "id", "us"])
def test_a_word_that_ends_like_a_plural_and_is_none_stays(word: str) -> None:
    assert singular(word) == word


def test_words_are_found_in_every_way_of_writing() -> None:
    for name in ("orderItems", "order_items", "order-items", "OrderItems", "ORDER_ITEMS"):
        assert split_words(name) == ["order", "items"]
    assert split_words("HTTPServer2") == ["http", "server", "2"]
    assert split_words("userIDs") == split_words("UserIds") == ["user", "ids"]
    assert split_words("ÜberGröße") == ["uber", "grosse"]


@pytest.mark.parametrize(
    ("text", "name"),
    [("in-progress", "IN_PROGRESS"), ("onHold", "ON_HOLD"), ("A320", "A320"), ("b2b", "B2B")],
)
def test_values_of_enums_keep_the_words_that_they_have(text: str, name: str) -> None:
    assert upper_snake(text) == name


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("first-name", "first_name"),
        ("2nd", "_2nd"),
        ("__typename", "typename"),
        ("a.b", "a_b"),
        ("名前", "field"),
        ("größe", "grosse"),
        ("prénom usuel", "prenom_usuel"),
        ("_id", "_id"),
    ],
)
def test_names_that_graphql_does_not_allow_become_the_nearest_ones(name: str, safe: str) -> None:
    assert safe_name(name) == safe
    assert is_name(safe)


def test_a_name_is_given_once() -> None:
    pool = NamePool({"limit"})

    given = [pool.claim(*wishes) for wishes in (("a",), ("a", "b"), ("a", "b"), ("limit",))]
    assert given == ["a", "b", "b2", "limit2"]


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
