"""Conditions and orders on properties that callers do not see as fields (decision 59)."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.graphql.definition.check import check_definition
from docgraph.graphql.sections import Graphql

SDL = """
type Query {
  people(salaryMin: Int, by: By, sortBySalary: Order, q: BsonDocument): [Person]
  staff: [Person] @visible(roles: ["hr"])
  teams(salaryMin: Int): [Team]
  stats(least: Int): [Stat]
}
type Person {
  name: String
  salary: Int @visible(roles: ["hr"])
  bossId: ID @visible(roles: ["hr"])
  home: Home
  boss: Person
  team(salaryMin: Int): [Person]
}
type Home { city: String street: String @visible(roles: ["hr"]) }
type Team { name: String }
type Stat { key: String total: Int @visible(roles: ["hr"]) }
input By { salary: Int name: String }
enum Order { ASC DESC }
"""
HR = '@visible(roles: ["hr"])'
PEOPLE = {"db": "d", "collection": "people"}
TEAMS = {"db": "d", "collection": "teams"}


def warn(name: str = "people", sdl: str = SDL, **mapping: Any) -> list[str]:
    """Return the warnings about hidden fields for a mapping of Query."""
    own: dict[str, Any] = {"people": PEOPLE, "staff": PEOPLE, "teams": TEAMS}
    own |= {"stats": {**PEOPLE, "stages": [{"$group": {"_id": 1}}]}}
    own[name] = {**own[name], **mapping}
    person = {"boss": {**PEOPLE, "find": {"_id": {"$fk": "name"}}}, "team": PEOPLE}
    definition = {"_id": "app", "schema": sdl, "mappings": {"Query": own, "Person": person}}
    report = check_definition(definition, settings=Graphql())
    assert not report.errors, report.errors
    found = (one for one in report.warnings if "callers who do not see" in one.what)
    return [f"{one.where.removeprefix('mappings.Query.')}: {one.what}" for one in found]


def text(place: str, use: str = "salary", field: str = "Person.salary") -> list[str]:
    return [f"{place}: uses {use} for callers who do not see {field}"]


BY_ARGUMENT = "salary with the argument salaryMin"


@pytest.mark.parametrize(
    ("find", "use"),
    [
        ({"salary": 5}, "salary"),
        ({"salary": {"$gt": {"$arg": "salaryMin"}}}, BY_ARGUMENT),
        ({"$ifarg": ["salaryMin", {"salary": {"$gt": {"$arg": "salaryMin"}}}]}, BY_ARGUMENT),
        ({"$and": [{"$ifarg": [["salaryMin"], {"salary": {"$gt": 1}}]}]}, BY_ARGUMENT),
        ({"$ifarg": ["salaryMin", {}, {"salary": 1}]}, BY_ARGUMENT),
        ({"$or": [{"name": "x"}, {"salary": {"$exists": True}}]}, "salary"),
        ({"$nor": [{"salary": 1}]}, "salary"),
        ({"salary": {"$not": {"$gt": {"$arg": ["salaryMin", 5]}}}}, BY_ARGUMENT),
        ({"salary": {"$arg": "by.salary"}}, "salary with the argument by.salary"),
        ({"$expr": {"$gt": ["$salary", {"$arg": "salaryMin"}]}}, BY_ARGUMENT),
        ({"$expr": {"$gt": ["$$ROOT.salary", 5]}}, "salary"),
        ({"$expr": {"$gt": [{"$getField": "salary"}, 5]}}, "salary"),
        ({"$jsonSchema": {"properties": {"salary": {"minimum": 5}}}}, "salary"),
    ],
)
def test_conditions_on_a_hidden_property_are_named(find: dict[str, Any], use: str) -> None:
    assert warn(find=find) == text("people.find", use)
    assert warn("staff", find={"salary": 5}) == []


@pytest.mark.parametrize(
    ("find", "use", "fields"),
    [
        ({"home.street": 1}, "home.street", "Home.street"),
        ({"home": {"$elemMatch": {"street": 1}}}, "home.street", "Home.street"),
        ({"home.0.street": 1}, "home.street", "Home.street"),
        ({"home": {"$arg": "q"}}, "home with the argument q", "Home.street"),
        (
            {"$arg": "q"},
            "every property with the argument q",
            "Home.street, Person.bossId, Person.salary",
        ),
        ({"$text": {"$search": "x"}}, "the text index", "Home.street, Person.bossId"),
    ],
)
def test_parts_of_objects_whole_filters_and_searches_are_named(
    find: dict[str, Any], use: str, fields: str
) -> None:
    assert warn(find=find) == text("people.find", use, fields)


def test_orders_are_named() -> None:
    assert warn(sort={"salary": -1, "name": 1}) == text("people.sort")
    sort = {"salary": {"$arg": ["sortBySalary", None]}}
    assert warn(sort=sort) == text("people.sort", "salary with the argument sortBySalary")
    hidden = SDL.replace("sortBySalary: Order", f"sortBySalary: Order {HR}")
    assert warn(sort=sort, sdl=hidden) == []


ALL = "Home.street, Person.bossId, Person.salary"
BY_Q = "every property with the argument q"


def test_orders_by_a_path_that_the_caller_chooses_are_named() -> None:
    assert warn(sort={"$arg": "q"}) == text("people.sort", BY_Q, ALL)
    assert warn(sort={"$arg": ["q", {"name": 1}]}) == text("people.sort", BY_Q, ALL)
    assert warn(stages=[{"$sort": {"$arg": "q"}}]) == text("people.stages[0]", BY_Q, ALL)
    hidden = SDL.replace("q: BsonDocument)", f"q: BsonDocument {HR})")
    assert warn(sort={"$arg": "q"}, sdl=hidden) == []


@pytest.mark.parametrize(
    "stages",
    [
        [{"$group": {"_id": "$name", "doc": {"$first": "$$ROOT"}}}],
        [{"$group": {"_id": "$name", "doc": {"$push": {"$mergeObjects": ["$$ROOT", {"x": 1}]}}}}],
        [{"$set": {"doc": "$$ROOT"}}],
        [{"$replaceWith": {"doc": "$$CURRENT"}}],
        [{"$facet": {"doc": [{"$match": {"name": "x"}}]}}],
        [{"$facet": {"doc": [{"$limit": 5}]}}, {"$unwind": "$doc"}],
        [{"$group": {"_id": 1, "all": {"$push": "$$ROOT"}}}, {"$project": {"doc": "$all"}}],
        [{"$ifarg": ["q", {"$set": {"doc": "$$ROOT"}}]}],
        [{"$lookup": {"from": "people", "pipeline": [{"$limit": 1}], "as": "doc"}}],
    ],
)
@pytest.mark.parametrize(
    ("last", "use"),
    [
        ({"$match": {"doc.salary": {"$gt": {"$arg": "salaryMin"}}}}, BY_ARGUMENT),
        ({"$match": {"doc": {"$elemMatch": {"salary": 5}}}}, "salary"),
        ({"$sort": {"doc.salary": 1}}, "salary"),
        (
            {"$set": {"x": {"$let": {"vars": {"d": "$doc"}, "in": {"$gt": ["$$d.salary", 1]}}}}},
            "salary",
        ),
        ({"$set": {"x": {"$map": {"input": "$doc", "as": "d", "in": "$$d.salary"}}}}, "salary"),
        ({"$set": {"x": {"$sortArray": {"input": "$doc", "sortBy": {"salary": 1}}}}}, "salary"),
        (
            {
                "$lookup": {
                    "from": "teams",
                    "let": {"d": "$doc"},
                    "pipeline": [{"$match": {"$expr": {"$gt": ["$pay", "$$d.salary"]}}}],
                    "as": "t",
                }
            },
            "salary",
        ),
    ],
)
def test_whole_documents_under_another_name_are_followed(
    stages: list[Any], last: Any, use: str
) -> None:
    assert warn(stages=stages) == []
    assert warn(stages=[*stages, last]) == text(f"people.stages[{len(stages)}]", use)
    harmless = {"$match": {"doc.name": {"$gt": {"$arg": "salaryMin"}}, "doc": {"$ne": []}}}
    assert warn(stages=[*stages, harmless]) == []


@pytest.mark.parametrize(
    "stage",
    [
        {"$set": {"pairs": {"$objectToArray": "$$ROOT"}}},
        {"$group": {"_id": "$$ROOT"}},
        {"$group": {"_id": "$name", "most": {"$max": "$$ROOT"}}},
        {"$geoNear": {"near": [0, 0], "distanceField": "d"}},
        {"$redact": {"$cond": [{"$gt": ["$level", 5]}, "$$DESCEND", "$$PRUNE"]}},
    ],
)
def test_what_cannot_be_followed_is_named(stage: Any) -> None:
    what = f"may compare every property for callers who do not see {ALL}"
    assert warn(stages=[stage]) == [f"people.stages[0]: {what}"]
    assert warn("teams", stages=[stage]) == []


def test_a_property_that_replaces_a_joined_document_is_no_document() -> None:
    lookup = {"$lookup": {"from": "people", "localField": "a", "foreignField": "b", "as": "p"}}
    stages = [lookup, {"$set": {"p": {"$size": "$p"}}}, {"$sort": {"p": 1}}]
    assert warn("teams", stages=stages) == []
    assert warn("teams", stages=[lookup, {"$sort": {"p": 1}}]) == text(
        "teams.stages[1]", "every property", ALL
    )


@pytest.mark.parametrize(
    ("given", "is_open"),
    [
        (f"by: By {HR}", False),
        (f"by: By = {{salary: 5}} {HR}", True),
        (f'by: By = {{name: "x"}} {HR}', False),
        (f"by: [By!] = [{{salary: 5}}] {HR}", True),
        ('by: By = {name: "x"}', False),
        (f"by: By = null {HR}", False),
    ],
)
def test_the_default_of_a_hidden_input_object_opens_its_condition(
    given: str, is_open: bool
) -> None:
    sdl = SDL.replace("by: By", given).replace("{ salary: Int name", f"{{ salary: Int {HR} name")
    expected = text("people.find", "salary with the argument by.salary") if is_open else []
    assert warn(find={"salary": {"$in": {"$arg": "by.salary"}}}, sdl=sdl) == expected


@pytest.mark.parametrize(
    "stage",
    [
        {"$search": {"range": {"path": "salary", "gt": {"$arg": "salaryMin"}}}},
        {
            "$search": {
                "range": {"path": ["name", {"value": "salary"}], "gt": {"$arg": "salaryMin"}}
            }
        },
        {"$vectorSearch": {"filter": {"salary": {"$gt": {"$arg": "salaryMin"}}}}},
    ],
)
def test_paths_of_searches_are_named(stage: Any) -> None:
    assert text("people.stages[0]", BY_ARGUMENT)[0] in warn(stages=[stage])


@pytest.mark.parametrize(
    ("old", "new", "is_open"),
    [
        ("salaryMin: Int, by", f"salaryMin: Int {HR}, by", False),
        ("salaryMin: Int, by", 'salaryMin: Int @visible(roles: ["hr", "other"]), by', True),
        ("salaryMin: Int, by", "salaryMin: Int @visible(roles: []), by", False),
        ("salaryMin: Int, by", f"salaryMin: Int = 5 {HR}, by", True),
        ("q: BsonDocument): [Person]", f"q: BsonDocument): [Person] {HR}", False),
    ],
)
def test_what_a_caller_cannot_use_is_not_named(old: str, new: str, is_open: bool) -> None:
    find = {"$ifarg": ["salaryMin", {"salary": {"$gt": {"$arg": "salaryMin"}}}]}
    assert warn(find=find, sdl=SDL.replace(old, new)) == (
        text("people.find", BY_ARGUMENT) if is_open else []
    )


def test_a_hidden_input_field_closes_its_condition() -> None:
    find = {"salary": {"$arg": "by.salary"}}
    assert (
        warn(find=find, sdl=SDL.replace("input By { salary: Int", f"input By {{ salary: Int {HR}"))
        == []
    )


def test_a_property_that_a_visible_field_shows_is_not_hidden() -> None:
    sdl = SDL.replace(
        "type Team { name: String }", "type Team { name: String } type Open { salary: Int }"
    )
    sdl = sdl.replace("staff: [Person]", "open: [Open] staff: [Person]")
    assert warn("people", sdl=sdl, find={"salary": 1}) == text("people.find")
    definition_shows = {"open": PEOPLE}
    own = {"people": {**PEOPLE, "find": {"salary": 1}}, **definition_shows}
    document = {"_id": "app", "schema": sdl, "mappings": {"Query": own}}
    report = check_definition(document, settings=Graphql())
    assert [one for one in report.warnings if "do not see" in one.what] == []


@pytest.mark.parametrize(
    ("stages", "use"),
    [
        ([{"$densify": {"field": "salary", "range": {"step": 1, "bounds": "full"}}}], "salary"),
        ([{"$fill": {"partitionByFields": ["salary"], "output": {"n": {"value": 0}}}}], "salary"),
        ([{"$match": {"salary": {"$gte": {"$arg": "salaryMin"}}}}], BY_ARGUMENT),
        ([{"$ifarg": ["salaryMin", {"$match": {"salary": 5}}]}], BY_ARGUMENT),
        ([{"$sort": {"salary": 1}}], "salary"),
        ([{"$set": {"rich": {"$gt": ["$salary", 5]}}}], "salary"),
        ([{"$group": {"_id": "$name", "n": {"$sum": "$salary"}}}], "salary"),
        ([{"$facet": {"a": [{"$match": {"salary": 1}}]}}], "salary"),
        ([{"$setWindowFields": {"sortBy": {"salary": 1}, "output": {}}}], "salary"),
        ([{"$sortByCount": "$salary"}], "salary"),
        ([{"$unwind": "$salary"}], "salary"),
        ([{"$unionWith": {"coll": "people", "pipeline": [{"$match": {"salary": 1}}]}}], "salary"),
        (
            [
                {
                    "$geoNear": {
                        "near": [0, 0],
                        "distanceField": "d",
                        "key": "at",
                        "query": {"salary": 1},
                    }
                }
            ],
            "salary",
        ),
    ],
)
def test_stages_are_named(stages: list[Any], use: str) -> None:
    assert warn(stages=stages) == text("people.stages[0]", use)


@pytest.mark.parametrize(
    "stages",
    [
        [{"$lookup": {"from": "people", "localField": "a", "foreignField": "salary", "as": "p"}}],
        [
            {
                "$lookup": {
                    "from": "people",
                    "pipeline": [{"$match": {"salary": 1}}, {"$match": {"name": 1}}],
                    "as": "p",
                }
            }
        ],
        [
            {
                "$graphLookup": {
                    "from": "people",
                    "startWith": "$name",
                    "connectFromField": "salary",
                    "connectToField": "name",
                    "as": "p",
                }
            }
        ],
    ],
)
def test_joined_properties_are_named(stages: list[Any]) -> None:
    assert warn("teams", stages=stages) == text("teams.stages[0]")


def test_a_condition_on_a_join_is_named() -> None:
    lookup = {"from": "people", "localField": "a", "foreignField": "b", "as": "p"}
    stages = [{"$lookup": lookup}, {"$match": {"p.salary": 5}}, {"$match": {"salary": 5}}]
    assert warn("teams", stages=stages) == text("teams.stages[1]")


def test_results_of_stages_have_properties_of_their_own() -> None:
    group = {"$group": {"_id": "$name", "total": {"$sum": 1}, "salary": {"$sum": 1}}}
    stages = [group, {"$match": {"total": {"$gt": {"$arg": "least"}}}}, {"$sort": {"salary": 1}}]
    use = "total with the argument least"
    assert warn("stats", stages=stages) == text("stats.stages[1]", use, "Stat.total")


@pytest.mark.parametrize(
    "stages",
    [
        [{"$project": {"salary": 1, "name": 1}}],
        [{"$project": {"salary": "$salary"}}],
        [{"$unset": "salary"}],
        [{"$match": {"name": "x"}}, {"$limit": 5}],
        [{"$set": {"known": {"$size": "$home"}}}],
        [{"$unwind": "$home"}],
        [{"$unwind": {"path": "$home", "preserveNullAndEmptyArrays": True}}],
    ],
)
def test_stages_that_only_pass_it_on_are_not_named(stages: list[Any]) -> None:
    assert warn(stages=stages) == []


@pytest.mark.parametrize(
    ("find", "where", "use", "field"),
    [
        ({"_id": {"$fk": "bossId"}}, "mappings.Person.team.find", "bossId", "Person.bossId"),
        ({"bossId": {"$fk": "name"}}, "mappings.Person.team.find", "bossId", "Person.bossId"),
        ({"a": {"$fk": "home.street"}}, "mappings.Person.team.find", "home.street", "Home.street"),
        ({"a": {"$arg": "rootDoc.salary"}}, "mappings.Person.team.find", "salary", "Person.salary"),
        ({"a": {"$fk": "home"}}, "mappings.Person.team.find", "home", "Home.street"),
    ],
)
def test_relations_are_named(find: dict[str, Any], where: str, use: str, field: str) -> None:
    definition = {
        "_id": "app",
        "schema": SDL,
        "mappings": {"Query": {"people": PEOPLE}, "Person": {"team": {**PEOPLE, "find": find}}},
    }
    report = check_definition(definition, settings=Graphql())
    found = [str(one) for one in report.warnings if "do not see" in one.what]
    assert found == text(where, use, field)


def test_a_collection_that_only_stages_show_has_hidden_properties_too() -> None:
    group = {"$group": {"_id": "$name", "doc": {"$first": "$$ROOT"}}}
    match = {"$match": {"doc.salary": {"$gt": {"$arg": "salaryMin"}}}}
    stages = [group, match, {"$replaceRoot": {"newRoot": "$doc"}}]
    mappings = {"Query": {"people": {**PEOPLE, "stages": stages}}}
    definition = {"_id": "app", "schema": SDL, "mappings": mappings}
    report = check_definition(definition, settings=Graphql())
    found = [str(one) for one in report.warnings if "do not see" in one.what]
    assert found == text("mappings.Query.people.stages[1]", BY_ARGUMENT)


def test_a_relation_by_a_property_that_another_type_hides_is_named() -> None:
    """The parents are of the same collection, though their type does not show the property."""
    sdl = SDL.replace("type Team { name: String }", "type Team { name: String team: [Team] }")
    relation: Any = {
        "db": "d",
        "collection": "teams",
        "find": {"level": {"$lte": {"$fk": "salary"}}},
    }
    mappings: Any = {"Query": {"people": PEOPLE, "teams": PEOPLE}, "Team": {"team": relation}}
    definition = {"_id": "app", "schema": sdl, "mappings": mappings}
    report = check_definition(definition, settings=Graphql())
    found = [str(one) for one in report.warnings if "do not see" in one.what]
    assert found == text("mappings.Team.team.find")
    group = {"$group": {"_id": "$name", "doc": {"$first": "$$ROOT"}}}
    mappings["Query"]["teams"] = {**PEOPLE, "stages": [group]}
    relation["find"] = {"level": {"$lte": {"$fk": "doc.salary"}}}
    report = check_definition(definition, settings=Graphql())
    found = [str(one) for one in report.warnings if "do not see" in one.what]
    assert found == text("mappings.Team.team.find")
    mappings["Query"]["teams"] = TEAMS
    assert "do not see" not in str(check_definition(definition, settings=Graphql()).warnings)


@pytest.mark.parametrize("connection", [{}, {"field": "page"}])
def test_conditions_of_connections_are_named(connection: dict[str, Any]) -> None:
    sdl = SDL.replace("q: BsonDocument): [Person]", "q: BsonDocument): [Person!]!")
    sdl = sdl.replace("staff: [Person]", "staff: [Team]").replace("boss: Person", "boss: Team")
    sdl = sdl.replace("team(salaryMin: Int): [Person]", "team(salaryMin: Int): [Team]")
    found = warn(sdl=sdl, find={"salary": {"$gt": {"$arg": "salaryMin"}}}, connection=connection)
    assert found[:1] == text("people.find", BY_ARGUMENT)


def test_conditions_that_follow_their_field_are_not_named() -> None:
    """The filter of a hidden field is hidden with it."""
    assert (
        warn(filter={"fields": {"salary": ["eq"], "name": ["eq"]}}, orderBy={"fields": ["salary"]})
        == []
    )


@pytest.mark.parametrize(
    "find",
    [
        {"salary": {"$gt": {"$arg": "salaryMin"}}},
        {"$expr": {"$gt": ["$salary", {"$arg": "salaryMin"}]}},
    ],
)
def test_counts_are_named(find: dict[str, Any]) -> None:
    sdl = SDL.replace("staff:", "count(salaryMin: Int): Int staff:")
    own = {"people": PEOPLE, "count": {**PEOPLE, "find": find, "count": True}}
    report = check_definition(
        {"_id": "app", "schema": sdl, "mappings": {"Query": own}}, settings=Graphql()
    )
    found = [str(one) for one in report.warnings if "do not see" in one.what]
    assert found == text("mappings.Query.count.find", BY_ARGUMENT)
