"""Six databases of different shapes, with their true relations, secrets and sample questions.

Everything is generated from a seed. The expected answers are computed from the documents in plain
Python, without docgraph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from bson import Binary, DBRef, Int64, ObjectId
from bson.decimal128 import Decimal128

__all__ = ["SHAPES", "START", "DataShape", "Row"]

Row = dict[str, Any]
START = datetime(2025, 1, 1)
SYLLABLES = "ba be bo da de do ka ke ko la le lo ma me mo na ne no ra re ro ta te to".split()


@dataclass
class DataShape:
    """A database; `relations` as `orders.customerId` → `customers._id`."""

    name: str
    collections: dict[str, list[Row]]
    relations: dict[str, str]
    secrets: frozenset[str] = frozenset()  # names of properties
    questions: list[tuple[str, Any]] = field(default_factory=list)
    indexes: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)  # unique or not
    options: dict[str, Row] = field(default_factory=dict)  # of collections

    def fill(self, database: Any) -> None:
        """Create the collections."""
        for name, options in self.options.items():
            database.create_collection(name, **options)
        for name, rows in self.collections.items():
            database[name].insert_many([dict(row) for row in rows])
            for path, is_unique in self.indexes.get(name, []):
                database[name].create_index(path, unique=is_unique)

    def list_secret_values(self) -> set[str]:
        """Return all values of the secret properties, as they could appear in a text."""
        rows = [row for rows in self.collections.values() for row in rows]
        return {str(value) for value in _find_values(rows, self.secrets)}


def _find_values(value: Any, names: frozenset[str]) -> Iterable[Any]:
    if isinstance(value, list):
        for one in value:
            yield from _find_values(one, names)
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from _flatten(one) if name in names else _find_values(one, names)


def _flatten(value: Any) -> Iterable[Any]:
    if isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _flatten(one)
    elif value is not None:
        yield value


def _word(random: Random, syllables: int = 3) -> str:
    return "".join(random.choice(SYLLABLES) for _ in range(syllables)).capitalize()


def _hex(random: Random, length: int) -> str:
    return "".join(random.choice("0123456789abcdef") for _ in range(length))


def _oid(random: Random) -> ObjectId:
    return ObjectId(_hex(random, 24))


def _code(random: Random, length: int) -> str:
    return "".join(random.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(length))


def _codes(random: Random, length: int, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found[_code(random, length)] = None
    return list(found)


def _day(random: Random, days: int = 300) -> datetime:
    return START + timedelta(days=random.randrange(days), minutes=random.randrange(1440))


# --- flights: natural keys (IATA codes), ranges in arrays -----------------------------------------


def build_flights(random: Random) -> DataShape:
    """Airports and airlines by their codes, aircraft by registration, bookings by number."""
    codes, lines = _codes(random, 3, 40), _codes(random, 2, 8)
    airports = [
        {
            "_id": code,
            "name": f"{_word(random)} Airport",
            "city": _word(random),
            "country": random.choice(["DE", "FR", "US", "JP", "BR", "ZA"]),
            "elevation_ft": random.randrange(0, 6000),
            "runways": [
                {"ident": f"{n:02}", "length_m": random.randrange(900, 4200)}
                for n in range(random.randrange(1, 4))
            ],
        }
        for code in codes
    ]
    airlines = [
        {"_id": n, "iata": code, "name": f"Air {_word(random)}", "hub": random.choice(codes)}
        for n, code in enumerate(lines)
    ]
    aircraft = [
        {
            "_id": f"D-{_code(random, 4)}",
            "model": random.choice(["A320", "B737", "E190"]),
            "seats": random.choice([100, 150, 180]),
            "airline": random.choice(lines),
        }
        for _ in range(30)
    ]
    flights = [
        {
            "_id": _oid(random),
            "number": n + 100,
            "airline": random.choice(lines),
            "from": random.choice(codes),
            "to": random.choice(codes),
            "tail": random.choice(aircraft)["_id"],
            "departure": _day(random),
            "status": random.choice(["scheduled", "delayed", "landed", "cancelled"]),
            "stops": random.sample(codes, random.randrange(0, 3)),
            "gateNo": random.randrange(1, 8),
            "crew_size": random.randrange(2, 7),
        }
        for n in range(300)
    ]
    bookings = [
        {
            "_id": Int64(9_000_000_000 + n),
            "flight": random.choice(flights)["_id"],
            "passenger": {"name": _word(random), "passportNumber": f"P{_hex(random, 8)}"},
            "seat": f"{random.randrange(1, 30)}{random.choice('ABCDEF')}",
            "price": float(random.randrange(5000, 90000)) / 100,
            "card_number": f"4{random.randrange(10**14, 10**15)}",
        }
        for n in range(300)
    ]
    return DataShape(
        "flights",
        {
            "airports": airports,
            "airlines": airlines,
            "aircraft": aircraft,
            "flights": flights,
            "bookings": bookings,
        },
        {
            "airlines.hub": "airports._id",
            "aircraft.airline": "airlines.iata",
            "flights.airline": "airlines.iata",
            "flights.from": "airports._id",
            "flights.to": "airports._id",
            "flights.tail": "aircraft._id",
            "flights.stops": "airports._id",
            "bookings.flight": "flights._id",
        },
        frozenset({"passportNumber", "card_number"}),
        indexes={"airlines": [("iata", True)], "flights": [("airline", False)]},
    )


# --- shop: ObjectIds, numbers, decimals, a tree of categories -------------------------------------


def build_shop(random: Random) -> DataShape:
    """Customers, orders with items, products in a tree of categories, reviews, coupons."""
    categories = [
        {"_id": n, "name": _word(random), "parentId": None if n < 4 else random.randrange(1, 4)}
        for n in range(1, 21)
    ]
    brands = [{"_id": _oid(random), "name": _word(random)} for _ in range(15)]
    products = [
        {
            "_id": _oid(random),
            "sku": f"SKU-{n:05}",
            "title": f"{_word(random)} {_word(random, 2)}",
            "price": Decimal128(f"{random.randrange(100, 90000) / 100:.2f}"),
            "categoryIds": random.sample(range(1, 21), random.randrange(1, 4)),
            "brand": random.choice(brands)["_id"],
            "stock": random.randrange(0, 200),
            "tags": random.sample(["new", "sale", "eco", "gift", "bulk"], 2),
        }
        for n in range(150)
    ]
    customers = [
        {
            "_id": _oid(random),
            "email": f"{_word(random).lower()}{n}@example.org",
            "name": f"{_word(random)} {_word(random)}",
            "passwordHash": f"$2b$10${_hex(random, 53)}",
            "resetCode": _hex(random, 12),
            "address": {"city": random.choice(["Bern", "Rome", "Oslo", "Lima"]), "zip": "1000"},
            "since": _day(random),
        }
        for n in range(80)
    ]
    coupons = [
        {"_id": f"SAVE{n:02}{_code(random, 3)}", "percent": random.choice([5, 10, 20])}
        for n in range(12)
    ]
    orders = [
        {
            "_id": n + 1000,
            "customerId": random.choice(customers)["_id"],
            "placedAt": _day(random),
            "status": random.choice(["open", "paid", "shipped", "returned"]),
            "items": [
                {"productId": one["_id"], "qty": random.randrange(1, 9), "price": one["price"]}
                for one in random.sample(products, random.randrange(1, 4))
            ],
            "total": float(random.randrange(1000, 90000)) / 100,
            "paymentId": _oid(random),
            "priority": random.randrange(1, 4),
            "couponCode": random.choice([None, *(one["_id"] for one in coupons)]),
        }
        for n in range(300)
    ]
    reviews = [
        {
            "_id": _oid(random),
            "product": random.choice(products)["sku"],
            "author": random.choice(customers)["_id"],
            "stars": random.randrange(1, 6),
            "invoiceId": 1000 + random.randrange(300),  # has the numbers of orders
            "body": " ".join(_word(random).lower() for _ in range(8)),
        }
        for _ in range(200)
    ]
    return DataShape(
        "shop",
        {
            "categories": categories,
            "brands": brands,
            "products": products,
            "customers": customers,
            "coupons": coupons,
            "orders": orders,
            "reviews": reviews,
        },
        {
            "categories.parentId": "categories._id",
            "products.categoryIds": "categories._id",
            "products.brand": "brands._id",
            "orders.customerId": "customers._id",
            "orders.items.productId": "products._id",
            "orders.couponCode": "coupons._id",
            "reviews.product": "products.sku",
            "reviews.author": "customers._id",
        },
        frozenset({"passwordHash", "resetCode"}),
        indexes={"products": [("sku", True)], "orders": [("customerId", False)]},
    )


# --- sensors: UUIDs of both subtypes, a time series -----------------------------------------------


def build_sensors(random: Random) -> DataShape:
    """Sites, gateways and devices by UUID, alarms, measurements as a time series."""

    def uuid(kind: int = 4) -> Binary:
        return Binary(random.randbytes(16), kind)

    sites = [
        {"_id": uuid(), "name": f"Site {_word(random)}", "lat": random.uniform(-60, 60)}
        for _ in range(12)
    ]
    gateways = [
        {
            "_id": uuid(3),
            "site_id": random.choice(sites)["_id"],
            "model": random.choice(["gx-1", "gx-2"]),
            "bearer": _hex(random, 32),
        }
        for _ in range(30)
    ]
    devices = [
        {
            "_id": uuid(),
            "serial": f"SN{n:06}",
            "gateway": random.choice(gateways)["_id"],
            "kind": random.choice(["temperature", "humidity", "pressure"]),
            "installed": _day(random),
            "neighbours": [],
            "pin": random.randrange(1000, 10000),
            "settings": {"interval_s": random.choice([10, 60, 300]), "apiKey": _hex(random, 40)},
        }
        for n in range(100)
    ]
    for device in devices:
        device["neighbours"] = [one["_id"] for one in random.sample(devices, 2)]
    alarms = [
        {
            "_id": n,
            "deviceUuid": random.choice(devices)["_id"],
            "severity": random.choice(["info", "warning", "critical"]),
            "raised": _day(random),
            "acknowledged": random.random() < 0.5,
        }
        for n in range(200)
    ]
    measurements = [
        {
            "_id": _oid(random),
            "ts": START + timedelta(minutes=10 * n),
            "meta": {"device": random.choice(devices)["_id"], "unit": random.choice(["C", "%"])},
            "value": round(random.uniform(-10, 40), 2),
        }
        for n in range(400)
    ]
    return DataShape(
        "sensors",
        {
            "sites": sites,
            "gateways": gateways,
            "devices": devices,
            "alarms": alarms,
            "measurements": measurements,
        },
        {
            "gateways.site_id": "sites._id",
            "devices.gateway": "gateways._id",
            "devices.neighbours": "devices._id",
            "alarms.deviceUuid": "devices._id",
            "measurements.meta.device": "devices._id",
        },
        frozenset({"bearer", "pin", "apiKey"}),
        indexes={"devices": [("serial", True)]},
        options={"measurements": {"timeseries": {"timeField": "ts", "metaField": "meta"}}},
    )


# --- CMS: polymorphic blocks, slugs, trees --------------------------------------------------------


def build_cms(random: Random) -> DataShape:
    """Pages of blocks of several kinds, assets, authors by handle, menus, comments."""
    authors = [
        {"_id": n, "handle": f"{_word(random).lower()}{n}", "bio": _word(random, 6)}
        for n in range(12)
    ]
    assets = [
        {
            "_id": _oid(random),
            "filename": f"{_word(random).lower()}.png",
            "bytes": random.randrange(1000, 900_000),
            "sha256": _hex(random, 64),
        }
        for _ in range(60)
    ]
    pages: list[Row] = [
        {
            "_id": _oid(random),
            "slug": f"{_word(random).lower()}-{n}",
            "title": f"{_word(random)} {_word(random)}",
            "author": random.choice(authors)["handle"],
            "state": random.choice(["draft", "published", "archived"]),
            "published": _day(random),
            "locale": random.choice(["en", "de", "fr"]),
        }
        for n in range(150)
    ]
    for page in pages:
        page["parent"] = random.choice([None, random.choice(pages)["_id"]])
        page["blocks"] = [
            _build_block(random, kind, assets, pages)
            for kind in random.choices(["text", "image", "gallery", "teaser"], k=4)
        ]
    menus = [
        {
            "_id": name,
            "items": [
                {"label": _word(random), "page": random.choice(pages)["slug"]} for _ in range(6)
            ],
        }
        for name in ("main", "footer", "legal", "social", "mobile", "help")
    ]
    comments = [
        {
            "_id": _oid(random),
            "pageId": random.choice(pages)["_id"],
            "text": _word(random, 9),
            "likes": random.randrange(50),
            "sessionId": _hex(random, 24),
            "ip_signature": _hex(random, 40),
        }
        for _ in range(200)
    ]
    return DataShape(
        "cms",
        {
            "authors": authors,
            "assets": assets,
            "pages": pages,
            "menus": menus,
            "comments": comments,
        },
        {
            "pages.author": "authors.handle",
            "pages.parent": "pages._id",
            "pages.blocks.asset": "assets._id",
            "pages.blocks.assets": "assets._id",
            "pages.blocks.target": "pages._id",
            "menus.items.page": "pages.slug",
            "comments.pageId": "pages._id",
        },
        frozenset({"sessionId", "ip_signature"}),
        indexes={"pages": [("slug", True)], "authors": [("handle", True)]},
    )


def _build_block(random: Random, kind: str, assets: list[Row], pages: list[Row]) -> Row:
    match kind:
        case "text":
            return {"type": kind, "html": f"<p>{_word(random, 9)}</p>"}
        case "image":
            return {"type": kind, "asset": random.choice(assets)["_id"], "width": 100}
        case "gallery":
            chosen = random.sample(assets, 3)
            return {"type": kind, "assets": [one["_id"] for one in chosen], "columns": 3}
    return {"type": kind, "target": random.choice(pages)["_id"], "width": "wide"}


# --- movies: keys in arrays, numbers as keys ------------------------------------------------------


def build_movies(random: Random) -> DataShape:
    """Movies with arrays of keys, cast with roles, ratings, sequels, genres by name."""
    genres = [{"_id": n, "name": name} for n, name in enumerate(_codes(random, 6, 10), 1)]
    studios = [{"_id": _oid(random), "name": f"{_word(random)} Pictures"} for _ in range(10)]
    people = [
        {
            "_id": id,
            "name": f"{_word(random)} {_word(random)}",
            "born": random.randrange(1930, 2000),
        }
        for id in random.sample(range(10**6), 120)
    ]
    movies = [
        {
            "_id": f"tt{random.randrange(10**6, 10**7)}",
            "title": f"{_word(random)} {_word(random)}",
            "year": random.randrange(1960, 2025),
            "genres": random.sample([one["_id"] for one in genres], 2),
            "director_ids": random.sample([one["_id"] for one in people], random.randrange(1, 3)),
            "cast": [
                {"person": one["_id"], "role": _word(random), "billing": place}
                for place, one in enumerate(random.sample(people, 4), 1)
            ],
            "crew_ids": random.sample([one["_id"] for one in people], 3),
            "studio": random.choice(studios)["_id"],
            "runtime": random.randrange(70, 200),
        }
        for _ in range(200)
    ]
    for movie in movies:
        movie["sequelOf"] = random.choice([None, None, random.choice(movies)["_id"]])
        movie["similar"] = [one["_id"] for one in random.sample(movies, 3)]
    users = [
        {
            "_id": _oid(random),
            "username": f"{_word(random).lower()}{n}",
            "contraseña": _word(random, 5),
            "tokens": [_hex(random, 32)],
            "watchlist": [one["_id"] for one in random.sample(movies, 5)],
        }
        for n in range(60)
    ]
    ratings = [
        {
            "_id": _oid(random),
            "movie": random.choice(movies)["_id"],
            "user": random.choice(users)["_id"],
            "score": random.randrange(1, 11),
            "at": _day(random),
        }
        for _ in range(400)
    ]
    return DataShape(
        "movies",
        {
            "genres": genres,
            "studios": studios,
            "people": people,
            "movies": movies,
            "users": users,
            "ratings": ratings,
        },
        {
            "movies.genres": "genres._id",
            "movies.director_ids": "people._id",
            "movies.cast.person": "people._id",
            "movies.crew_ids": "people._id",
            "movies.studio": "studios._id",
            "movies.sequelOf": "movies._id",
            "movies.similar": "movies._id",
            "users.watchlist": "movies._id",
            "ratings.movie": "movies._id",
            "ratings.user": "users._id",
        },
        frozenset({"contraseña", "tokens"}),
        indexes={"ratings": [("movie", False)]},
    )


# --- legacy: mixed ids, DBRefs, ids as text, misspelled names, secrets in several languages -------


def build_legacy(random: Random) -> DataShape:
    """What twenty years leave behind."""
    staff: list[Row] = [
        {
            "_id": _oid(random) if n % 3 else n,
            "Nme": f"{_word(random)} {_word(random)}",
            "passwort": _word(random, 4),
            "pw": _hex(random, 10),
            "SSN": f"{random.randrange(100, 999)}-22-{random.randrange(1000, 9999)}",
        }
        for n in range(60)
    ]
    kunden: list[Row] = [
        {
            "_id": f"K{n:05}",
            "name": _word(random),
            "mot_de_passe": _word(random, 4),
            "betreuer": random.choice(staff)["_id"],
            "active": random.choice(["Y", "N"]),
        }
        for n in range(80)
    ]
    depots = [{"_id": _oid(random), "ort": _word(random)} for _ in range(10)]
    items = [
        {
            "_id": _oid(random),
            "descr": _word(random, 5),
            "qty": random.choice([random.randrange(90), str(random.randrange(90))]),
            "depot": DBRef("depots", random.choice(depots)["_id"]),
        }
        for _ in range(100)
    ]
    auftraege = [
        {
            "_id": n,
            "kunde": DBRef("kunden", random.choice(kunden)["_id"]),
            "custmer_no": random.choice(kunden)["_id"],
            "itemId": str(random.choice(items)["_id"]),
            "items": [DBRef("tbl_items", one["_id"]) for one in random.sample(items, 2)],
            "datum": _day(random),
            "date_txt": f"{_day(random):%Y-%m-%d}",
            "amount": random.randrange(10, 999),
        }
        for n in range(200)
    ]
    logs = [
        {
            "_id": _oid(random),
            "auftrag_id": random.choice(auftraege)["_id"],
            "handledBy": random.choice(staff)["_id"],
            "cookie": _hex(random, 20),
            "senha": _word(random, 4),
            "lvl": random.choice([1, 2, 3]),
            "about": DBRef(*random.choice([("kunden", kunden[0]["_id"]), ("auftraege", 3)])),
        }
        for _ in range(150)
    ]
    return DataShape(
        "legacy",
        {
            "staff": staff,
            "kunden": kunden,
            "depots": depots,
            "tbl_items": items,
            "auftraege": auftraege,
            "logs": logs,
        },
        {
            "kunden.betreuer": "staff._id",
            "tbl_items.depot.$id": "depots._id",
            "auftraege.kunde.$id": "kunden._id",
            "auftraege.custmer_no": "kunden._id",
            "auftraege.items.$id": "tbl_items._id",
            "logs.auftrag_id": "auftraege._id",
            "logs.handledBy": "staff._id",
        },
        frozenset({"passwort", "pw", "SSN", "mot_de_passe", "cookie", "senha"}),
    )


SHAPES: dict[str, Callable[[Random], DataShape]] = {
    "flights": build_flights,
    "shop": build_shop,
    "sensors": build_sensors,
    "cms": build_cms,
    "movies": build_movies,
    "legacy": build_legacy,
}
