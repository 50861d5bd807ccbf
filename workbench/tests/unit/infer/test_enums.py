"""Which columns become enums: names, prose and cities never, states and kinds do.

Each column has few texts that repeat, as in a small or a generated database.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from docgraph_workbench.infer.profile import Profile, find_enum_values

# `name: text | text`, by language.
FREE_TEXTS = """
vorname: Anna | Jonas | Lukas | Marie
nachname: Müller | Schmidt | Weber
ort: Berlin | Hamburg | Köln | Leipzig
stadtteil: Altstadt | Neustadt | Südvorstadt
aufgabe: Milch kaufen | Auto waschen | Steuer machen
bemerkung: gut | schnell geliefert | gerne wieder
gericht: Spaghetti | Schnitzel | Suppe
verein: Borussia | Eintracht | Fortuna
beruf: lehrer | arzt | koch
anmerkungen: offen lassen | neu bestellen | bezahlt in bar
prenom: Camille | Louis | Chloé
ville_naissance: paris | lyon | lille
avis: très bien | décevant | correct
tache: acheter du pain | appeler maman | payer le loyer
plat: ratatouille | quiche | crêpe
metier: boulanger | infirmier | avocat
loisir: lecture | natation | randonnée
apellidos: García | López | Martín
provincia: madrid | sevilla | valencia
opinion: muy bueno | regular | malo
tarea: comprar pan | llamar a mamá | pagar el alquiler
mascota: luna | toby | rocky
plato: paella | gazpacho | tortilla
cognome: Rossi | Bianchi | Ferrari
comune: roma | milano | napoli
commento: ottimo | buono | da evitare
compito: comprare il latte | chiamare mamma | pagare
squadra: juventus | inter | lazio
piatto: pizza | lasagna | risotto
apelido: Silva | Santos | Pereira
freguesia: lisboa | porto | braga
tarefa: comprar leite | ligar ao banco | pagar a renda
prato: feijoada | bacalhau | caldo
firstName: james | mary | linda
nickname: ace | buddy | duke
hometown: boston | denver | austin
todo: buy milk | call mom | pay rent
feedback: great | not bad | new and open
task: open the window | close the door | review the draft
remarks: done | call again | pending since monday
hobby: reading | chess | running
dish: soup | salad | pasta
team: reds | blues | greens
publisher: penguin | harper | random-house
supplier: acme | globex | initech
college: harvard | yale | mit_media_lab
pet: REX | BELLA | MAX
ingredient: salt_flakes | olive_oil | brown_sugar
answer: yes | no | maybe later
lastWords: new | open | closed
Name: ANNA | JONAS | LUKAS
departamento: ventas | compras | logistica
skill: python | java | rust
venue: arena | stadium | park
street_name: main | oak | maple
greeting: hello | hi | hey
reason_text: late | broken | unwanted
statusText: all good | waiting for parts | see note
status_comment: fine | late | call back
status: waiting for parts | all good | call back tomorrow
reason: customer was late | item broken | wrong size
zustand: wie neu | gut erhalten | leichte Gebrauchsspuren
etat: comme neuf | quelques rayures | bon mais ancien
condition: hardly used | some scratches | as good as new
method: fry in butter | boil for ten minutes | bake
tipo: casa con jardín | piso en el centro
state: texas | ohio | utah
estado: jalisco | sonora | puebla
"""
ENUMS = """
status: offen | bezahlt | storniert
bestellstatus: NEU | IN_ARBEIT | VERSANDT
zahlungsart: rechnung | lastschrift | kreditkarte
anrede: Herr | Frau | Divers
versandart: STANDARD | EXPRESS | ABHOLUNG
lieferzustand: offen | geliefert | storniert
statut: en_attente | payée | annulée
etatCommande: OUVERT | FERME | EXPEDIE
civilite: M | MME | MLLE
type_compte: PARTICULIER | PRO | ASSOCIATION
estado: pendiente | pagado | enviado
estadoPedido: ABIERTO | CERRADO | EN_CURSO
tipoPago: tarjeta | efectivo | transferencia
prioridad: alta | media | baja
stato: aperto | chiuso | annullato
statoOrdine: IN_CORSO | SPEDITO | CONSEGNATO
priorita: alta | media | bassa
tipoCliente: PRIVATO | AZIENDA
situacao: aberto | fechado | pendente
estadoEncomenda: NOVO | PAGO | ENTREGUE
prioridade: alta | media | baixa
status_: active | inactive | blocked
orderStatus: Pending | Shipped | Delivered
paymentMethod: CARD | CASH | BANK_TRANSFER
severity: low | medium | high | critical
role: admin | editor | viewer
plan: free | pro | enterprise
level: DEBUG | INFO | WARN | ERROR
visibility: public | private
weekday: MON | TUE | WED | THU | FRI
jobState: QUEUED | RUNNING | FAILED
result: passed | failed | skipped
progress_status: Not started | In progress | On hold
workflowStatus: In Progress | To Do | Done
bearbeitungsstatus: In Bearbeitung | Abgeschlossen | Offen
roomType: Single Room | Double Room | Suite
state: new | lost | done | open
kundentyp: privat | gewerblich
event: user_created | user_deleted | order_paid
currency_kind: FIAT | CRYPTO
direction: north | south | east | west
"""


def read(text: str) -> Iterator[tuple[str, list[str]]]:
    for line in text.strip().splitlines():
        name, _, texts = line.partition(": ")
        yield name, texts.split(" | ")


def infer(name: str, texts: list[str], documents: int) -> dict[str, str] | None:
    chance = random.Random(name)
    profile = Profile()
    profile.add_all({name: chance.choice(texts)} for _ in range(documents))
    return find_enum_values(name, profile.shape.fields[name])


@pytest.mark.parametrize("documents", [60, 400])
@pytest.mark.parametrize(("name", "texts"), list(read(FREE_TEXTS)))
def test_names_cities_and_prose_are_no_enums(name: str, texts: list[str], documents: int) -> None:
    assert infer(name, texts, documents) is None


@pytest.mark.parametrize(("name", "texts"), list(read(ENUMS)))
def test_states_and_kinds_are_enums(name: str, texts: list[str]) -> None:
    values = infer(name, texts, 400)
    assert values is not None
    assert sorted(values.values()) == sorted(texts)
