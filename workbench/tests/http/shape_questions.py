"""Sample questions on the six databases, with the answers that plain Python finds in the documents.

The order of a list matters only where the question sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from workbench.tests.http.data_shapes import START, DataShape, Row

__all__ = ["QUESTIONS", "Question"]

Question = tuple[str, Any]
"""A query, and the expected data of its only field."""

MIDDLE = datetime(2025, 6, 1)


def by_id(rows: Iterable[Row], key: str = "_id") -> dict[Any, Row]:
    return {row[key]: row for row in rows}


def pick(rows: Iterable[Row], *names: str) -> list[Row]:
    """Return the rows with these properties, as a query shows them."""
    return [{name: row["_id" if name == "id" else name] for name in names} for row in rows]


def uuid(value: Any) -> str:
    return str(UUID(bytes=bytes(value)))


def iso(date: datetime) -> str:
    return f"{date.isoformat(timespec='milliseconds')}Z"


def ask_flights(data: DataShape) -> list[Question]:
    rows = data.collections
    airports, airlines = by_id(rows["airports"]), by_id(rows["airlines"], "iata")
    aircraft, flights, bookings = by_id(rows["aircraft"]), rows["flights"], rows["bookings"]
    port, line, plane, flight = (
        rows["airports"][3],
        rows["airlines"][2],
        rows["aircraft"][4],
        max(flights, key=lambda one: len(one["stops"])),
    )
    code = port["_id"]
    fits = [
        one
        for one in rows["airports"]
        if any(2000 <= runway["length_m"] <= 2500 for runway in one["runways"])
    ]
    late = [one for one in flights if one["status"] == "delayed" and one["departure"] < MIDDLE]
    booked = [one for one in bookings if one["flight"] == bookings[0]["flight"]]
    dear = sorted(bookings, key=lambda one: -one["price"])[:3]
    own = [one for one in flights if one["airline"] == line["iata"]]
    last = max(own, key=lambda one: one["departure"])
    return [
        (f'{{ airport(id: "{code}") {{ name city }} }}', pick([port], "name", "city")[0]),
        (
            "{ airports(runways_length_m_min: 2000, runways_length_m_max: 2500, limit: 100)"
            " { id } }",
            pick(fits, "id"),
        ),
        (
            f'{{ flights(from: "{code}", limit: 100) {{ number }} }}',
            pick([one for one in flights if one["from"] == code], "number"),
        ),
        (
            f"{{ flights(number: {flights[7]['number']}) {{ airline {{ name }}"
            " fromAirport { city } toAirport { city } aircraft { model } } }",
            [
                {
                    "airline": {"name": airlines[flights[7]["airline"]]["name"]},
                    "fromAirport": {"city": airports[flights[7]["from"]]["city"]},
                    "toAirport": {"city": airports[flights[7]["to"]]["city"]},
                    "aircraft": {"model": aircraft[flights[7]["tail"]]["model"]},
                }
            ],
        ),
        (
            f'{{ flights(status: DELAYED, departureBefore: "{iso(MIDDLE)}", limit: 100)'
            " { number } }",
            pick(late, "number"),
        ),
        (
            f'{{ airlineByIata(iata: "{line["iata"]}") {{ airport {{ name }}'
            " flights(sortByDeparture: DESC, limit: 1) { number } } }",
            {
                "airport": {"name": airports[line["hub"]]["name"]},
                "flights": [{"number": last["number"]}],
            },
        ),
        (
            f'{{ aircraftById(id: "{plane["_id"]}") {{ airline {{ name }} flights(limit: 100)'
            " { number } } }",
            {
                "airline": {"name": airlines[plane["airline"]]["name"]},
                "flights": pick([one for one in flights if one["tail"] == plane["_id"]], "number"),
            },
        ),
        (
            f'{{ flight(id: "{flight["_id"]}") {{ stopsAirports {{ id }} }} }}',
            {"stopsAirports": [{"id": one} for one in flight["stops"]]},
        ),
        (
            f'{{ bookings(flightId: "{booked[0]["flight"]}") {{ seat passenger {{ name }} }} }}',
            [
                {"seat": one["seat"], "passenger": {"name": one["passenger"]["name"]}}
                for one in booked
            ],
        ),
        ("{ bookings(sortByPrice: DESC, limit: 3) { price } }", pick(dear, "price")),
    ]


def ask_shop(data: DataShape) -> list[Question]:
    rows = data.collections
    products, customers = by_id(rows["products"]), by_id(rows["customers"])
    categories, brands = by_id(rows["categories"]), by_id(rows["brands"])
    orders, reviews = rows["orders"], rows["reviews"]
    order = next(one for one in orders if one["couponCode"])
    product, customer, brand = rows["products"][5], rows["customers"][7], rows["brands"][1]
    coupon = next(one for one in rows["coupons"] if one["_id"] == order["couponCode"])
    own = sorted(
        (one for one in orders if one["customerId"] == customer["_id"]),
        key=lambda one: one["placedAt"],
    )
    shipped = [one for one in orders if one["status"] == "shipped" and one["placedAt"] >= MIDDLE]
    many = [one for one in orders if any(5 <= item["qty"] <= 6 for item in one["items"])]
    return [
        (
            f"{{ order(id: {order['_id']}) {{ customer {{ name }} coupon {{ percent }} items {{ qty"
            " product { title brand { name } } } } }",
            {
                "customer": {"name": customers[order["customerId"]]["name"]},
                "coupon": {"percent": coupon["percent"]},
                "items": [
                    {
                        "qty": item["qty"],
                        "product": {
                            "title": products[item["productId"]]["title"],
                            "brand": {"name": brands[products[item["productId"]]["brand"]]["name"]},
                        },
                    }
                    for item in order["items"]
                ],
            },
        ),
        (
            f'{{ productBySku(sku: "{product["sku"]}") {{ title categories {{ name }} }} }}',
            {
                "title": product["title"],
                "categories": [{"name": categories[one]["name"]} for one in product["categoryIds"]],
            },
        ),
        (
            f'{{ customer(id: "{customer["_id"]}") {{ orders(sortByPlacedAt: ASC, limit: 100)'
            " { id } } }",
            {"orders": pick(own, "id")},
        ),
        (
            f'{{ customers(email: "{customer["email"]}") {{ name address {{ city }} }} }}',
            [{"name": customer["name"], "address": {"city": customer["address"]["city"]}}],
        ),
        (
            f'{{ orders(status: SHIPPED, placedAtFrom: "{iso(MIDDLE)}", limit: 100) {{ id }} }}',
            pick(shipped, "id"),
        ),
        ("{ orders(itemsQtyMin: 5, itemsQtyMax: 6, limit: 200) { id } }", pick(many, "id")),
        (
            "{ category(id: 2) { children { id } products(limit: 100) { sku } } }",
            {
                "children": pick(
                    [one for one in categories.values() if one["parentId"] == 2], "id"
                ),
                "products": pick(
                    [one for one in products.values() if 2 in one["categoryIds"]], "sku"
                ),
            },
        ),
        (
            f'{{ reviews(productId: "{reviews[0]["product"]}") {{ stars author {{ name }} product'
            " { title } } }",
            [
                {
                    "stars": one["stars"],
                    "author": {"name": customers[one["author"]]["name"]},
                    "product": {"title": by_id(rows["products"], "sku")[one["product"]]["title"]},
                }
                for one in reviews
                if one["product"] == reviews[0]["product"]
            ],
        ),
        (
            f'{{ brands(name: "{brand["name"]}") {{ products(limit: 100) {{ sku }} }} }}',
            [
                {"products": pick([p for p in products.values() if p["brand"] == b["_id"]], "sku")}
                for b in brands.values()
                if b["name"] == brand["name"]
            ],
        ),
        (
            '{ products(tag: "eco", priceMin: "100", priceMax: "500", limit: 100) { sku } }',
            pick(
                [
                    one
                    for one in products.values()
                    if "eco" in one["tags"] and 100 <= one["price"].to_decimal() <= 500
                ],
                "sku",
            ),
        ),
    ]


def ask_sensors(data: DataShape) -> list[Question]:
    rows = data.collections
    sites, gateways, devices = (by_id(rows[one]) for one in ("sites", "gateways", "devices"))
    alarms, measured = rows["alarms"], rows["measurements"]
    device, gateway, site = rows["devices"][4], rows["gateways"][3], rows["gateways"][0]["site_id"]
    alarm = alarms[9]
    own = [one for one in measured if one["meta"]["device"] == measured[0]["meta"]["device"]]
    cold = sorted((one for one in measured if one["value"] < 0), key=lambda one: one["value"])
    day = [one for one in measured if one["ts"] < datetime(2025, 1, 1, 6)]
    return [
        (
            f'{{ device(id: "{uuid(device["_id"])}") {{ serial gateway {{ id site {{ name }} }}'
            " neighbours { serial } } }",
            {
                "serial": device["serial"],
                "gateway": {
                    "id": uuid(device["gateway"]),
                    "site": {"name": sites[gateways[device["gateway"]]["site_id"]]["name"]},
                },
                "neighbours": [{"serial": devices[one]["serial"]} for one in device["neighbours"]],
            },
        ),
        (
            f'{{ gateway(id: "{uuid(gateway["_id"])}") {{ model devices(limit: 100) {{ id }} }} }}',
            {
                "model": gateway["model"],
                "devices": [
                    {"id": uuid(one["_id"])}
                    for one in devices.values()
                    if one["gateway"] == gateway["_id"]
                ],
            },
        ),
        (
            f'{{ gateways(site_id: "{uuid(site)}", limit: 100) {{ id }} }}',
            [{"id": uuid(id)} for id, one in gateways.items() if one["site_id"] == site],
        ),
        (
            f'{{ deviceBySerial(serial: "{device["serial"]}") {{ id kind alarms {{ id }} }} }}',
            {
                "id": uuid(device["_id"]),
                "kind": device["kind"].upper(),
                "alarms": pick([one for one in alarms if one["deviceUuid"] == device["_id"]], "id"),
            },
        ),
        (
            f"{{ alarm(id: {alarm['_id']}) {{ device {{ serial }} raised }} }}",
            {
                "device": {"serial": devices[alarm["deviceUuid"]]["serial"]},
                "raised": iso(alarm["raised"]),
            },
        ),
        (
            "{ alarms(severity: CRITICAL, acknowledged: false, limit: 200) { id } }",
            pick(
                [
                    one
                    for one in alarms
                    if one["severity"] == "critical" and not one["acknowledged"]
                ],
                "id",
            ),
        ),
        (
            f'{{ measurements(metaDeviceId: "{uuid(own[0]["meta"]["device"])}", sortByTs: ASC)'
            " { value meta { device { serial } } } }",
            [
                {
                    "value": one["value"],
                    "meta": {"device": {"serial": devices[one["meta"]["device"]]["serial"]}},
                }
                for one in own
            ],
        ),
        (
            "{ measurements(valueMax: -0.01, sortByValue: ASC, limit: 5) { value } }",
            pick(cold[:5], "value"),
        ),
        (
            f'{{ measurements(tsFrom: "{iso(START)}", tsBefore: "2025-01-01T06:00:00Z", limit: 100)'
            " { value } }",
            pick(day, "value"),
        ),
        (
            "{ devices(kind: HUMIDITY, settings_interval_s_min: 60, limit: 100) { serial } }",
            pick(
                [
                    one
                    for one in devices.values()
                    if one["kind"] == "humidity" and one["settings"]["interval_s"] >= 60
                ],
                "serial",
            ),
        ),
    ]


def ask_cms(data: DataShape) -> list[Question]:
    rows = data.collections
    pages, assets = by_id(rows["pages"]), by_id(rows["assets"])
    slugs, authors = by_id(rows["pages"], "slug"), by_id(rows["authors"], "handle")
    comments = rows["comments"]
    child = next(one for one in rows["pages"] if one["parent"])
    kinds = {kind: _find_page(rows["pages"], kind) for kind in ("image", "gallery", "teaser")}
    image = next(one for one in kinds["image"]["blocks"] if one["type"] == "image")["asset"]
    liked = sorted(comments, key=lambda one: -one["likes"])[:4]
    return [
        (
            f'{{ pageBySlug(slug: "{child["slug"]}") {{ title parent {{ slug }}'
            " author { bio } } }",
            {
                "title": child["title"],
                "parent": {"slug": pages[child["parent"]]["slug"]},
                "author": {"bio": authors[child["author"]]["bio"]},
            },
        ),
        (
            f'{{ page(id: "{kinds["image"]["_id"]}") {{ blocks {{ type'
            " asset { filename } } } }",
            {
                "blocks": [
                    {
                        "type": one["type"].upper(),
                        "asset": {"filename": assets[one["asset"]]["filename"]}
                        if "asset" in one
                        else None,
                    }
                    for one in kinds["image"]["blocks"]
                ]
            },
        ),
        (
            f'{{ page(id: "{kinds["gallery"]["_id"]}") {{ blocks {{ assets {{ id }} }} }} }}',
            {
                "blocks": [
                    {"assets": [{"id": str(id)} for id in one.get("assets", [])]}
                    for one in kinds["gallery"]["blocks"]
                ]
            },
        ),
        (
            f'{{ page(id: "{kinds["teaser"]["_id"]}") {{ blocks {{ width'
            " target { slug } } } }",
            {
                "blocks": [
                    {
                        "width": str(one["width"]) if "width" in one else None,
                        "target": {"slug": pages[one["target"]]["slug"]}
                        if "target" in one
                        else None,
                    }
                    for one in kinds["teaser"]["blocks"]
                ]
            },
        ),
        (
            f'{{ pages(blocksAssetId: "{image}", limit: 100) {{ slug }} }}',
            pick(
                [
                    one
                    for one in pages.values()
                    if any(block.get("asset") == image for block in one["blocks"])
                ],
                "slug",
            ),
        ),
        (
            f'{{ pages(blocksAssetIds: "{image}", limit: 100) {{ slug }} }}',
            pick(
                [
                    one
                    for one in pages.values()
                    if any(image in block.get("assets", []) for block in one["blocks"])
                ],
                "slug",
            ),
        ),
        (
            '{ menu(id: "main") { items { label page { title } } } }',
            {
                "items": [
                    {"label": one["label"], "page": {"title": slugs[one["page"]]["title"]}}
                    for one in rows["menus"][0]["items"]
                ]
            },
        ),
        (
            f'{{ pages(state: PUBLISHED, locale: "de", publishedFrom: "{iso(MIDDLE)}", limit: 100)'
            " { slug } }",
            pick(
                [
                    one
                    for one in pages.values()
                    if (one["state"], one["locale"]) == ("published", "de")
                    and one["published"] >= MIDDLE
                ],
                "slug",
            ),
        ),
        ("{ comments(sortByLikes: DESC, limit: 4) { likes } }", pick(liked, "likes")),
        (
            f'{{ authorByHandle(handle: "{child["author"]}") {{ pages(limit: 100) {{ slug comments'
            " { text } } } }",
            {
                "pages": [
                    {
                        "slug": one["slug"],
                        "comments": pick([c for c in comments if c["pageId"] == id], "text"),
                    }
                    for id, one in pages.items()
                    if one["author"] == child["author"]
                ]
            },
        ),
    ]


def _find_page(pages: list[Row], kind: str) -> Row:
    return next(one for one in pages if any(block["type"] == kind for block in one["blocks"]))


def ask_movies(data: DataShape) -> list[Question]:
    rows = data.collections
    people, genres, users = (by_id(rows[one]) for one in ("people", "genres", "users"))
    movies, ratings = by_id(rows["movies"]), rows["ratings"]
    movie = next(one for one in rows["movies"] if one["sequelOf"])
    user, person = rows["users"][2], movie["cast"][0]["person"]
    first, rating = movies[movie["sequelOf"]], ratings[11]
    old = sorted(
        (one for one in movies.values() if 1960 <= one["year"] <= 1970),
        key=lambda one: one["runtime"],
    )
    own = [one for one in ratings if one["movie"] == rating["movie"]]
    best = sorted(own, key=lambda one: one["at"])
    id = movie["_id"]
    return [
        (
            f'{{ movie(id: "{id}") {{ title sequelOf {{ title }} genres {{ name }} }} }}',
            {
                "title": movie["title"],
                "sequelOf": {"title": first["title"]},
                "genres": [{"name": genres[one]["name"]} for one in movie["genres"]],
            },
        ),
        (
            f'{{ movie(id: "{id}") {{ cast {{ role person {{ name }} }} }} }}',
            {
                "cast": [
                    {"role": one["role"], "person": {"name": people[one["person"]]["name"]}}
                    for one in movie["cast"]
                ]
            },
        ),
        (
            f'{{ movie(id: "{id}") {{ directors {{ name }} }} }}',
            {"directors": [{"name": people[one]["name"]} for one in movie["director_ids"]]},
        ),
        (
            f'{{ movie(id: "{id}") {{ similars {{ id }} }} }}',
            {"similars": [{"id": one} for one in movie["similar"]]},
        ),
        (
            f"{{ movies(castPersonId: {person}, limit: 100) {{ id }} }}",
            pick(
                [
                    one
                    for one in movies.values()
                    if any(part["person"] == person for part in one["cast"])
                ],
                "id",
            ),
        ),
        (
            f"{{ movies(director_id: {movie['director_ids'][0]}, limit: 100) {{ id }} }}",
            pick(
                [one for one in movies.values() if movie["director_ids"][0] in one["director_ids"]],
                "id",
            ),
        ),
        (
            "{ movies(yearMin: 1960, yearMax: 1970, sortByRuntime: ASC, limit: 100) { runtime } }",
            pick(old, "runtime"),
        ),
        (
            f'{{ users(username: "{user["username"]}") {{ watchlists {{ title }} }} }}',
            [{"watchlists": [{"title": movies[one]["title"]} for one in user["watchlist"]]}],
        ),
        (
            f'{{ ratings(movieId: "{rating["movie"]}", sortByAt: ASC, limit: 100) {{ score user'
            " { username } } }",
            [
                {"score": one["score"], "user": {"username": users[one["user"]]["username"]}}
                for one in best
            ],
        ),
        (
            f'{{ movie(id: "{first["_id"]}") {{ moviesBySequelOf(limit: 100) {{ id }} }} }}',
            {
                "moviesBySequelOf": pick(
                    [one for one in movies.values() if one["sequelOf"] == first["_id"]], "id"
                )
            },
        ),
    ]


def ask_legacy(data: DataShape) -> list[Question]:
    rows = data.collections
    staff, customers, depots, items = (
        by_id(rows[one]) for one in ("staff", "kunden", "depots", "tbl_items")
    )
    orders, logs = rows["auftraege"], rows["logs"]
    kinds = {
        kind: next(one for one in logs if isinstance(one["handledBy"], int) is kind)
        for kind in (True, False)
    }
    customer, order, item = rows["kunden"][3], orders[8], rows["tbl_items"][2]
    amounts = sorted(orders, key=lambda one: -one["amount"])[:3]
    return [
        *(
            (
                f'{{ log(id: "{log["_id"]}") {{ handledById handledBy {{ Nme }}'
                " auftrag { amount } } }",
                {
                    "handledById": str(log["handledBy"]),
                    "handledBy": {"Nme": staff[log["handledBy"]]["Nme"]},
                    "auftrag": {"amount": orders[log["auftrag_id"]]["amount"]},
                },
            )
            for log in kinds.values()
        ),
        *(
            (
                f'{{ staffById(id: "{log["handledBy"]}") {{ Nme logs(limit: 100) {{ id }} }} }}',
                {
                    "Nme": staff[log["handledBy"]]["Nme"],
                    "logs": [
                        {"id": str(one["_id"])}
                        for one in logs
                        if one["handledBy"] == log["handledBy"]
                    ],
                },
            )
            for log in kinds.values()
        ),
        (
            f'{{ kunde(id: "{customer["_id"]}") {{ name betreuer {{ id Nme }}'
            " auftraegeByKunde(limit: 100) { id } } }",
            {
                "name": customer["name"],
                "betreuer": {
                    "id": str(customer["betreuer"]),
                    "Nme": staff[customer["betreuer"]]["Nme"],
                },
                "auftraegeByKunde": pick(
                    [one for one in orders if one["kunde"].id == customer["_id"]], "id"
                ),
            },
        ),
        (
            f"{{ auftrag(id: {order['_id']}) {{ kunde {{ name }} custmer {{ name }}"
            " items { descr depot { ort } } } }",
            {
                "kunde": {"name": customers[order["kunde"].id]["name"]},
                "custmer": {"name": customers[order["custmer_no"]]["name"]},
                "items": [
                    {
                        "descr": items[one.id]["descr"],
                        "depot": {"ort": depots[items[one.id]["depot"].id]["ort"]},
                    }
                    for one in order["items"]
                ],
            },
        ),
        (
            f'{{ auftraege(itemId: "{order["itemId"]}") {{ id }} }}',
            pick([one for one in orders if one["itemId"] == order["itemId"]], "id"),
        ),
        ("{ auftraege(sortByAmount: DESC, limit: 3) { amount } }", pick(amounts, "amount")),
        (
            f'{{ depots(ort: "{rows["depots"][0]["ort"]}") {{ tblItems(limit: 100)'
            " { descr } } }",
            [
                {"tblItems": pick([i for i in items.values() if i["depot"].id == id], "descr")}
                for id, one in depots.items()
                if one["ort"] == rows["depots"][0]["ort"]
            ],
        ),
        (
            f'{{ tblItem(id: "{item["_id"]}") {{ descr qty auftraege(limit: 100) {{ id }} }} }}',
            {
                "descr": item["descr"],
                "qty": str(item["qty"]),
                "auftraege": pick(
                    [o for o in orders if item["_id"] in [one.id for one in o["items"]]], "id"
                ),
            },
        ),
    ]


QUESTIONS: dict[str, Callable[[DataShape], list[Question]]] = {
    "flights": ask_flights,
    "shop": ask_shop,
    "sensors": ask_sensors,
    "cms": ask_cms,
    "movies": ask_movies,
    "legacy": ask_legacy,
}
