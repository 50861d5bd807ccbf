"""`infer` finds relations by abbreviated names, and leaves out official numbers of persons."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.http.access_harness import ADMIN, guarded
from tests.http.harness import Mongo, Service
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

SECRET = {"partita_iva": "0123456789", "nif": "X123", "steuernummer": "12/345", "codice_fiscale": 7}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as service:
        customers = ({"_id": n, "name": f"N{n}", **SECRET} for n in range(30))
        service.insert("Kunden", *customers)
        service.insert("Auftraege", *({"_id": n, "kdnr": n % 30} for n in range(60)))
        rows = ({"_id": f"r{n}", "kd_nr": n % 30, "auftr_nr": n % 60} for n in range(90))
        service.insert("tmp", *rows)
        yield service


async def test_abbreviated_names_are_relations(service: Service) -> None:
    reply = await service.request("POST", "/_tools/infer", json={"db": service.db}, headers=ADMIN)
    learned: Any = reply.json

    notes = [note for note in learned["notes"] if " refers to " in note]
    assert sorted(note.partition(" (")[0] for note in notes) == [
        "Auftraege.kdnr refers to Kunden._id",
        "tmp.auftr_nr refers to Auftraege._id",
        "tmp.kd_nr refers to Kunden._id",
    ]
    shown = str(learned["definition"]["schema"])
    for name in SECRET:
        assert f"{name}: left out" in shown, shown
