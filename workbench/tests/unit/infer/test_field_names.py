"""Names of the schema out of names of the database."""

from __future__ import annotations

import pytest

from docgraph_workbench.infer.field_names import (
    NamePool,
    is_name,
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
