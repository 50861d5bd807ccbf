"""The predicate language of rules: grammar, words, values (decision 39)."""

from __future__ import annotations

import json
from typing import Any, ClassVar
from urllib.parse import quote

import pytest

from docgraph.access.language import RequestView, compile_predicate, holds
from docgraph.codec import decode
from docgraph.codec.bson_types import Decimal128, Int64, ObjectId
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Exchange
from docgraph.plugins.kinds import VariableResolver
from docgraph.predicates import PredicateError
from docgraph.variables import Resolvers
from tests.unit.access.harness import ADA, RESOLVERS, evaluate, make_exchange

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("path('/a/b')", "/a/b", True),
        ("path(/a/b)", "/a/b/", True),
        ("path('a/b/')", "/a//b", True),
        ("path('/x', '/a')", "/a", True),
        ("path({'/x', '/a'})", "/a", True),
        ("path('/a')", "/A", False),
        ("path('/a')", "/a/b", False),
        ("path('/')", "/", True),
        ("path[/a]", "/a", True),
        ("path(path='/a')", "/a", True),
        ("path('/a/b')", "/a%2Fb", False),
        ("path('/a b')", "/a%20b", True),
        ("path('/%{q,x}/b')", "/a/b?x=a", True),
        ("path-prefix('/%{q,x}')", "/a/b?x=b", False),
        ("path-prefix('/a')", "/a", True),
        ("path-prefix('/a')", "/a/b/c", True),
        ("path-prefix('/a')", "/ab", False),
        ("path-prefix('/')", "/anything", True),
        ("path-prefix('/x', '/a')", "/a/b", True),
        ("path-prefix('/a/b')", "/a%2Fb/c", False),
        ("path-suffix('.json')", "/a/b.json", True),
        ("path-suffix('/b')", "/a/b", True),
        ("path-suffix('/b')", "/a/xb", False),
        ("path-suffix('/b')", "/a%2Fb", False),
        ("path-suffix('x/b')", "/ax/b", True),
        ("path-suffix('/b')", "/b", True),
        ("path-template('/users/{id}')", "/users/ada", True),
        ("path-template('/users/{id}')", "/users", False),
        ("path-template('/users/{id}')", "/users/a/b", False),
        ("path-template('/{a}/{a}')", "/x/x", True),
        ("path-template('/{a}/{a}')", "/x/y", False),
        ("path-template('/{a}/*')", "/x/y/z", True),
        ("path-template('/{a}/*')", "/x", False),
        ("path-template(/users/{id}/x)", "/users/1/x", True),
    ],
)
async def test_paths_match_by_segment(text: str, path: str, expected: bool) -> None:
    assert await evaluate(text, "GET", path) is expected


@pytest.mark.parametrize(
    "text",
    [
        "path-template('/users/{id}') and equals(@user._id, ${id})",
        "path-template('/users/{id}') and equals[@user._id, '${id}']",
        "path-template('/users/{id}') and equals(%u, ${id})",
        "path-template(value='/users/{id}') and equals('user ada', 'user ${id}')",
        "path-prefix('/users') and equals(${remaining}, '/ada')",
        "regex('^/users/(\\w+)$') and equals(${1}, ada)",
        "regex(pattern='(?P<x>ada)', value=%R) and equals(${0}, ada)",
        "in(value=@user._id, array={eve, 'ada'})",
        "in(value='editor', array=@roles)",
        "equals(@user.age, 36)",
        "equals(@user.age, '36') and gte(@user.age, 36) and lte(@user.age, 36.0)",
        "equals(@authenticated, true)",
        "contains(value=%{i,X-Tags}, search={zzz, blue})",
        "contains(@roles, editor)",
        "exists(%{i,X-Tags}) and not exists(%{i,X-None}) and not exists(@user.none)",
        "equals(%{q,page}, 2) and equals(@qparams['page'], 2)",
        "equals(%{c,theme}, dark)",
        "equals(%m, GET) and equals(%h, 10.0.0.7)",
        "equals(%a, 10.0.0.7) and equals(%{REMOTE_IP}, %{REMOTE_HOST})",
        "equals(%{REMOTE_USER}, ada) and equals(%{METHOD}, GET) and equals(%{SCHEME}, https)",
        "equals(%{RELATIVE_PATH}, '/users/ada')",
        "auth-required",
        "ip-access-control(acl={'10.0.0.0/8 allow'})",
        "ip-access-control(acl={'10.0.0.7 allow', '10.0.0.0/8 deny'})",
        "not ip-access-control(acl={'10.0.0.0/24 deny', '10.0.0.7 allow'}, default-allow=true)",
        "ip-access-control(acl={'::1 deny'}, default-allow=true)",
        "not ip-access-control(acl={'127.0.0.1 allow'})",
        "equals(@request.method, GET)",
        "method(get, POST) and secure and idempotent",
        "qparams-contain(page) and qparams-blacklist(filter, sort) and qparams-size(2)",
        "qparams-whitelist(page, x) and not qparams-whitelist(page) and not qparams-whitelist()",
        "true and not false and (false or true)",
        "equals('@@ada', '@@ada')",
    ],
)
async def test_conditions_that_hold(text: str) -> None:
    headers = {"X-Tags": "red,blue", "Cookie": "a=1; theme=dark"}
    assert await evaluate(text, "GET", "/users/ada?page=2&x", headers=headers)


@pytest.mark.parametrize("value", ["%{q,keys}", "@qparams['keys']", "%{c,theme}", "'x%{q,keys}'"])
async def test_what_is_given_twice_differently_is_nothing_that_a_rule_can_rely_on(
    value: str,
) -> None:
    """The service may go by the other value: neither a condition on it nor its contrary holds."""
    request = ("GET", "/a?keys=a&keys=b")
    headers = {"Cookie": "theme=a; x; theme=b"}
    for text in (f"equals({value}, a)", f"in(value={value}, array={{a, b}})", f"regex(a, {value})"):
        assert not await evaluate(text, *request, headers=headers)
        assert not await evaluate(f"not {text}", *request, headers=headers)
    assert await evaluate(f"exists({value})", *request, headers=headers)
    same = ("GET", "/a?keys=a&keys=a")
    assert await evaluate(f"regex(a, {value})", *same, headers={"Cookie": "theme=a; theme=a"})


@pytest.mark.parametrize(
    "text",
    [
        "equals(@user.none, a)",
        "not equals(@user.none, a)",
        "equals(@user.gone, null)",
        "not equals(@user.gone, x)",
        "not (path('/x') or equals(@user.none, a))",
        "not in(value=@user.none, array={a})",
        "not (equals(@user.none, a) and path('/users/ada'))",
        "equals(@user.none, @user.none)",
        "gte(@user.team, 1)",
        "not gte(@user.team, 1)",
        "not equals(@user.none.deeper, a)",
        "path(@user.none)",
        "not contains(@user.none, a)",
        "equals(%{i,X-None}, %{q,none})",
        "not equals(%{i,X-None}, %{q,none})",
        "not equals(%{q,tenant}, a)",
        "not equals(%{c,tenant}, a)",
        "not equals(@qparams['tenant'], a)",
        "not in(value=a, array={%{i,X-None}, b})",
        "not in(value=%{i,X-None}, array={a})",
        "not contains(@roles, %{i,X-None})",
        "not regex(pattern=a, value=%{i,X-None})",
        "regex('^/users/(x)?') and equals(${1}, None)",
        "regex('^/users/(x)?') and not equals(${1}, a)",
        "not gte(%{q,none}, 1)",
        "not request-larger-than(5)",
        "request-smaller-than(5)",
    ],
)
async def test_what_has_no_value_denies_whichever_way_it_is_asked(text: str) -> None:
    assert not await evaluate(text, "GET", "/users/ada")


@pytest.mark.parametrize(
    "text",
    [
        "equals(@user.none, a) or path('/users/ada')",
        "path('/users/ada') or equals(@user.none, a)",
        "not (equals(@user.none, a) and path('/x'))",
    ],
)
async def test_a_value_that_does_not_matter_may_be_missing(text: str) -> None:
    assert await evaluate(text, "GET", "/users/ada")


@pytest.mark.parametrize(
    "text",
    [
        "equals(%u, ada)",
        "equals(@user._id, ada)",
        "not equals(%u, eve)",
        "equals(%u, %{q,none})",
        "auth-required",
    ],
)
async def test_an_unknown_caller_has_no_name(text: str) -> None:
    assert not await evaluate(text, "GET", "/users/ada", account=None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("equals('@user._id', ada)", False),
        ("equals('@user._id', '@user._id')", True),
        ('equals("@user._id", ada)', False),
        ("equals(@user._id, ada)", True),
        ("in(value='@user._id', array={ada})", False),
        ("path('/users/@user._id')", False),
        ("equals('%u', ada) and path-template('/users/{id}') and equals('${id}', ada)", True),
    ],
)
async def test_a_quoted_variable_is_a_text(text: str, expected: bool) -> None:
    assert await evaluate(text, "GET", "/users/ada") is expected


async def test_objects_are_compared_by_value() -> None:
    account = Account(
        "ada", (), {"a": {"x": 1, "y": [2]}, "b": {"y": [2.0], "x": 1}, "c": {"x": 1}}
    )
    assert await evaluate("equals(@user.a, @user.b)", account=account)
    assert await evaluate("not equals(@user.a, @user.c)", account=account)


@pytest.mark.parametrize(
    "rule",
    [
        "path-template('/users/{id}') and equals(@user._id, ${id})",
        "path-template('/users/{id}') and equals(${id}, %u)",
        "path-template('/users/{id}') and in(value=@user._id, array={${id}})",
        "regex('^/users/([^/]+)$') and equals(@user._id, ${1})",
        "equals(@request._id, @user._id)",
    ],
)
@pytest.mark.parametrize(
    "id_type", ["NULL", "null", "MINKEY", "MAXKEY", "NUMBER", "DATE", "BOOLEAN", "OID"]
)
async def test_the_id_of_a_rule_is_the_one_that_the_service_looks_for(
    rule: str, id_type: str
) -> None:
    """`/users/5?id_type=NUMBER` is the document 5, not the one of the user "5"."""
    account = Account("5", (), {"_id": "5"})
    assert await evaluate(rule, "GET", "/users/5", account=account)
    assert await evaluate(rule, "GET", "/users/5?id_type=STRING", account=account)
    assert not await evaluate(rule, "GET", f"/users/5?id_type={id_type}", account=account)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/users/ada?id_type=NULL", "path('/users/ada')"),
        ("/users/ada?id_type=MINKEY", "path-suffix('ada')"),
        ("/users/ada?id_type=MAXKEY", "regex('^/users/ada$')"),
        ("/users/ada?id_type=NULL", "path-prefix('/users/ada')"),
        ("/users/ada?id_type=NULL", "equals(@request.relativePath, '/users/ada')"),
        ("/users/ada?id_type=NULL", "equals(%R, '/users/ada')"),
    ],
)
async def test_the_path_of_a_rule_is_the_one_that_is_served(path: str, text: str) -> None:
    assert await evaluate(text, "GET", "/users/ada")
    assert not await evaluate(text, "GET", path)
    assert await evaluate("path('/users/_null', '/users/_MinKey', '/users/_MaxKey')", "GET", path)


async def test_unknown_callers_are_not_their_variables_spelt_out() -> None:
    """What the caller writes is never read as a part of the rule."""
    rule = "path-template('/{id}') and equals(@user._id, ${id})"
    assert not await evaluate(rule, "GET", "/@user._id", account=None)
    assert not await evaluate(rule, "GET", "/@user._id")


@pytest.mark.parametrize("hostile", ["%u", "${id}", "@user._id", "' or true or '", "a,b", "'"])
async def test_values_are_never_read_as_text_of_the_rule(hostile: str) -> None:
    account = Account("ada", (), {"_id": hostile})
    assert not await evaluate("equals(@user._id, ada)", account=account)
    assert await evaluate("equals(@user._id, @user._id)", account=account)


@pytest.mark.parametrize(
    ("stored", "written", "expected"),
    [
        (5, "5", True),
        (5.0, "5", True),
        (5.5, "5.5", True),
        (Int64(5), "5", True),
        (5, "05", False),
        (5, "5.0", False),
        (True, "true", True),
        (True, "1", False),
        (1, "true", False),
        (ObjectId("6" * 24), "6" * 24, True),
        (["a"], "a", False),
        ({"a": 1}, "a", False),
        ("5", "5", True),
    ],
)
async def test_values_keep_their_types(stored: Any, written: str, expected: bool) -> None:
    account = Account("ada", (), {"x": stored})
    assert await evaluate(f"equals(@user.x, '{written}')", account=account) is expected


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("bson-request-contains(a, b.c)", {"a": 1, "b": {"c": 2}}, True),
        ("bson-request-contains(b.c)", {"b.c": 2}, True),
        ("bson-request-contains(b.c)", {"$set": {"b.c": 2}}, True),
        ("bson-request-contains(b.c)", {"b": [{"c": 1}, {"c": 2}]}, True),
        ("bson-request-contains(b.c)", {"b": [{"c": 1}, {"d": 2}]}, False),
        ("bson-request-contains(a)", [{"a": 1}, {"b": 1}], False),
        ("bson-request-contains(a)", None, False),
        ("bson-request-blacklist(roles)", {"name": "x"}, True),
        ("bson-request-blacklist(roles)", {"roles": []}, False),
        ("bson-request-blacklist(roles)", {"roles.0": "admin"}, False),
        ("bson-request-blacklist(roles)", {"$set": {"roles": ["admin"]}}, False),
        ("bson-request-blacklist(roles)", {"$push": {"roles": "admin"}}, False),
        ("bson-request-blacklist(roles)", {"$rename": {"x": "roles"}}, False),
        ("bson-request-blacklist(roles)", {"$set": {"roles.$[]": "admin"}}, False),
        ("bson-request-blacklist(roles)", [{"a": 1}, {"roles": []}], False),
        ("bson-request-blacklist(a.b)", {"a": {"c": 1}}, True),
        ("bson-request-blacklist(a.b)", {"a": [{"c": 1}, {"b": 1}]}, False),
        ("bson-request-whitelist(a, b)", {"a": 1, "b": {"c": 2}}, True),
        ("bson-request-whitelist(a, b.c)", {"b": {"c": 2, "d": 1}}, False),
        ("bson-request-whitelist(a)", {"$set": {"a": 1, "b": 2}}, False),
        ("bson-request-whitelist(a)", {"$unset": {"b": 2}}, False),
        ("bson-request-whitelist(a)", {"$rename": {"a": "b"}}, False),
        ("bson-request-whitelist()", {}, True),
        ("bson-request-whitelist()", None, True),
        ("bson-request-whitelist()", {"a": 1}, False),
        ("not bson-request-whitelist(a, b)", {"c": 1}, True),
        ("not bson-request-whitelist(a, b.0.c)", {"b": [{"c": 1}]}, False),
        ("bson-request-prop-equals(key=a, value='\"bar\"')", {"a": "bar"}, True),
        ("bson-request-prop-equals(key=a, value=5)", {"a": 5.0}, True),
        ("bson-request-prop-equals(key=a, value=5)", {"a": Decimal128("5.0")}, True),
        ("bson-request-prop-equals(key=a, value=1)", {"a": True}, False),
        (
            'bson-request-prop-equals(key=a, value=\'{"b": 1, "c": 2}\')',
            {"a": {"c": 2, "b": 1}},
            True,
        ),
        ("bson-request-prop-equals(key=a, value='\"5\"')", {"a": 5}, False),
        ("bson-request-prop-equals(key=a, value='{\"b\": 1}')", {"a": {"b": 1}}, True),
        ("bson-request-prop-equals(key=a, value=5)", {"$set": {"a": 5}}, True),
        ("bson-request-prop-equals(key=a, value=5)", {"$inc": {"a": 5}}, False),
        ("bson-request-prop-equals(key=a, value=5)", {"a": 5, "$rename": {"x": "a"}}, False),
        ("bson-request-prop-equals(key=a, value=5)", [{"a": 5}, {"a": 6}], False),
        ("bson-request-prop-equals(key=a, value=5)", [{"a": 5}, {}], False),
        ("bson-request-prop-equals(key=o, value=@user._id)", {"o": "ada"}, True),
        ("bson-request-prop-equals(key=o, value=@user.none)", {"o": "ada"}, False),
        ("bson-request-array-contains(key=a, values={'\"x\"', 2})", {"a": ["x", 2, 3]}, True),
        ("bson-request-array-contains(key=a, values={'\"x\"', 2})", {"a": ["x"]}, False),
        ("bson-request-array-contains(key=a, values=1)", {"a": 1}, False),
        ("bson-request-array-is-subset(key=a, values={1, 2})", {"a": [1]}, True),
        ("bson-request-array-is-subset(key=a, values={1, 2})", {"a": []}, True),
        ("bson-request-array-is-subset(key=a, values={1, 2})", {"a": [3]}, False),
        ("bson-request-array-is-subset(key=a, values={1, 2})", {"$push": {"a": 1}}, False),
        ("bson-request-array-is-subset(key=a, values={1})", {"a": [1], "a.1": 9}, False),
        ("bson-request-array-is-subset(key=a, values={})", {"a": []}, True),
        ("bson-request-array-is-subset(key=a, values={})", {"a": [1]}, False),
        ("equals(@request.body.a, x)", {"a": "x"}, True),
        # Operators that change what is stored, whatever their operands say.
        ("bson-request-whitelist(a.b)", {"$unset": {"a": {"b": 1}}}, False),
        ("bson-request-whitelist(a.b)", {"$pull": {"a": {"b": 1}}}, False),
        ("bson-request-whitelist(a.b)", {"$unset": {"a.b": 1}}, True),
        ("bson-request-whitelist(a)", {"$push": {"a": {"$each": [1]}}}, True),
        ("bson-request-whitelist(a)", {"$rename": {"a": 1}}, False),
        ("bson-request-whitelist(a)", {"$unknown": {"a": 1}}, False),
        ("bson-request-whitelist(a)", {"$set": 1}, False),
        ("bson-request-blacklist(a.b)", {"$unset": {"a": 1}}, False),
        ("bson-request-blacklist(a.b)", {"$push": {"a": {"$each": [{"b": 1}]}}}, False),
        ("bson-request-blacklist(a.b)", {"a": {"$c": 1, "b": 2}}, False),
        ("bson-request-blacklist(a)", {"$unset": "a"}, False),
        ("bson-request-blacklist(a)", {"$unknown": {"x": 1}}, False),
        ("bson-request-blacklist(a)", {"b": 1, "$set": {"a": 1}}, False),
        ("bson-request-blacklist(a)", {"a.x": 1}, False),
        ("bson-request-contains(a)", {"$unset": {"a": 1}}, False),
        ("bson-request-contains(a)", {"$rename": {"a": "b"}}, False),
        ("bson-request-contains(a)", {"$inc": {"a": 1}}, True),
        ("bson-request-prop-equals(key=a, value=5)", {"$setOnInsert": {"a": 5}}, False),
        ("bson-request-prop-equals(key=a.b, value=5)", {"a.b": 5, "a": {"c": 1}}, False),
        ("bson-request-prop-equals(key=a.b.c, value=5)", {"a": {"b.c": 5}}, False),
        ("bson-request-prop-equals(key=a.b, value=5)", {"a": {"b": 5}}, True),
        # Bodies that hold no documents.
        ("bson-request-blacklist(a)", [{"b": 1}, 2], False),
        ("bson-request-blacklist(a)", "b", False),
        ("bson-request-whitelist()", 5, False),
    ],
)
async def test_words_about_the_body(text: str, body: Any, expected: bool) -> None:
    assert await evaluate(text, "POST", "/users", body=body) is expected


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("bson-request-whitelist(a)", [{"$set": {"a": 1}}], True),
        ("bson-request-whitelist(a)", [{"$addFields": {"a": "$b"}}, {"$unset": "a"}], True),
        ("bson-request-whitelist(a)", [{"$unset": ["a", "b"]}], False),
        ("bson-request-whitelist(a)", [{"$unset": {"a": 1}}], False),
        ("bson-request-whitelist(a)", [{"$set": {"$a": 1}}], False),
        ("bson-request-whitelist(a)", [{"$set": "a"}], False),
        ("bson-request-whitelist(a)", [{"$project": {"a": 1}}], False),
        ("bson-request-whitelist(a)", [{"$replaceWith": {"a": 1}}], False),
        ("bson-request-whitelist(a.b)", [{"$set": {"a": {"$literal": {"b": 1}}}}], False),
        ("bson-request-blacklist(a)", [{"$set": {"b": 1}}], True),
        ("bson-request-blacklist(a)", [{"$unset": "a"}], False),
        ("bson-request-blacklist(a.b)", [{"$unset": "a"}], False),
        ("bson-request-blacklist(a.b)", [{"$set": {"a": "$c"}}], False),
        ("bson-request-blacklist(a.b)", [{"$set": {"a": ["$c"]}}], False),
        ("bson-request-blacklist(a.b)", [{"$set": {"a": {"$literal": {"b": 1}}}}], False),
        ("bson-request-blacklist(a)", [{"$project": {"b": 1}}], False),
        ("bson-request-blacklist(a)", [{"$replaceRoot": {"newRoot": "$b"}}], False),
        ("bson-request-blacklist(a)", [{"$replaceWith": {"$literal": {"b": 1}}}], False),
        ("bson-request-contains(a)", [{"$set": {"a": 1}}], True),
        ("bson-request-contains(a)", [{"$set": {"a": "$$REMOVE"}}], False),
        ("bson-request-contains(a)", [{"$project": {"a": 1}}], False),
        ("bson-request-contains(a)", [{"$set": {"a": 1}}, {"$unset": "a"}], False),
        ("bson-request-prop-equals(key=a, value=5)", [{"$set": {"a": 5}}], True),
        ("bson-request-prop-equals(key=a, value='\"$b\"')", [{"$set": {"a": "$b"}}], False),
        ("bson-request-prop-equals(key=a, value='{\"b\": 1}')", [{"$set": {"a": {"b": 1}}}], False),
        ("bson-request-array-is-subset(key=a, values={1})", [{"$set": {"a": [1]}}], True),
        ("bson-request-array-contains(key=a, values={1})", [{"$set": {"a": [1, "$b"]}}], False),
        ("bson-request-whitelist(a)", [{"$currentDate": {"a": True}}], False),
        ("bson-request-whitelist(a)", [{"a": 1}], False),
        ("bson-request-whitelist(a)", [{"$set": {"a": 1}, "$unset": "b"}], False),
    ],
)
async def test_of_a_pipeline_what_cannot_be_named_is_everything(
    text: str, body: Any, expected: bool
) -> None:
    assert await evaluate(text, "PATCH", "/users/1", body=body) is expected


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("bson-request-contains(a)", [{"a": 1}, {"b": 1}]),
        ("bson-request-contains(a)", {"$unset": {"a": 1}}),
        ("bson-request-contains(a)", {"$rename": {"b": "a"}}),
        ("bson-request-contains(a)", [{"$replaceWith": "$b"}]),
        ("bson-request-contains(a.b)", {"$push": {"a": {"$each": []}}}),
        ("bson-request-contains(a.b)", {"a": [{"b": 1}, {"c": 1}]}),
        ("bson-request-contains(c, a)", {"c": 1, "$unset": {"a": 1}}),
        ("bson-request-blacklist(a)", [{"$project": {"b": 1}}]),
        ("bson-request-blacklist(a.b)", [{"$set": {"a": "$c"}}]),
        ("bson-request-whitelist(a)", [{"$replaceRoot": {"newRoot": "$b"}}]),
        ("bson-request-whitelist(a.b)", {"$unset": {"a": 1}}),
        ("bson-request-prop-equals(key=a, value=5)", {"$rename": {"b": "a"}}),
        ("bson-request-prop-equals(key=a, value=5)", {"$inc": {"a": 5}}),
        ("bson-request-prop-equals(key=a, value=5)", [{"a": 5}, {"a": 6}]),
        ("bson-request-prop-equals(key=a, value=5)", [{"a": 5}, {}]),
        ("bson-request-prop-equals(key=a, value=5)", {"b": 5}),
        ("bson-request-array-contains(key=a, values=1)", {}),
        ("bson-request-array-is-subset(key=a, values=1)", {"b": 1}),
        ("bson-request-prop-equals(key=a, value=5)", [{"$replaceWith": {"a": 5}}]),
        ("bson-request-array-contains(key=a, values=1)", {"$push": {"a": 1}}),
        ("bson-request-array-contains(key=a, values=1)", [{"a": [1]}, {"a": []}]),
        ("bson-request-array-is-subset(key=a, values=1)", {"$addToSet": {"a": 2}}),
    ],
)
async def test_what_is_open_or_true_in_part_neither_holds_nor_fails(text: str, body: Any) -> None:
    """`not bson-request-contains(roles)` is a way to forbid, and has to forbid then, too."""
    assert not await evaluate(text, "PATCH", "/users/1", body=body)
    assert not await evaluate(f"not {text}", "PATCH", "/users/1", body=body)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("bson-request-contains(a)", {"b": 1}),
        ("bson-request-contains(a)", [{"$set": {"b": "$a"}}]),
        ("bson-request-blacklist(a)", {"a": 1}),
        ("bson-request-whitelist(a)", {"a": 1, "b": 1}),
        ("bson-request-prop-equals(key=a, value=5)", {"a": 6}),
        ("bson-request-array-contains(key=a, values=1)", {"a": [2]}),
        ("bson-request-array-is-subset(key=a, values=1)", {"a": [2]}),
    ],
)
async def test_what_is_certain_can_be_turned_round(text: str, body: Any) -> None:
    assert not await evaluate(text, "PATCH", "/users/1", body=body)
    assert await evaluate(f"not {text}", "PATCH", "/users/1", body=body)


async def test_bodies_of_other_services_are_none_of_their_business() -> None:
    body = {"query": "{ a }"}
    assert not await evaluate("bson-request-contains(query)", body=body, service="graphql")


async def test_the_body_is_read_only_where_a_word_about_it_is_reached() -> None:
    reads: list[int] = []
    text = "path('/x') and bson-request-contains(a)"
    for path in ("/y", "/x"):
        await evaluate(text, "POST", path, body={"a": 1}, on_body=lambda: reads.append(1))
    assert reads == [1]


async def test_a_body_that_cannot_be_read_denies() -> None:
    for text in ("bson-request-contains(a)", "not bson-request-contains(a)"):
        assert not await evaluate(text, "POST", "/x", body={"a": "x" * (2 << 20)})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pth('/a')", "column 1: unknown predicate pth; did you mean path?"),
        ("path('/a') and xyzzy()", "column 16: unknown predicate xyzzy (known: "),
        ("path('/a') and", "column 15: expected a predicate, found the end"),
        ("path('/a'", "expected ','"),
        ("equals(a)", "column 1: equals: needs two values or more"),
        ("equals(${id}, a)", "column 1: equals: nothing to the left gives ${id}"),
        (
            "equals(${id}, a) and path-template('/{id}')",
            "column 1: equals: nothing to the left gives ${id}",
        ),
        ("equals(${a}, b) and pth(x)", "column 1"),
        ("path-template('/{a}') and equals(${a}, %{i,B}) and pth(x)", "column 52: unknown"),
        ("equals(@usr.x, a)", "column 1: equals: unknown variable @usr (known: @authenticated"),
        ("equals(@dbPermissions.readFilter, a)", "cannot be used inside a permission"),
        ("equals(%z, a)", "unknown attribute %z"),
        ("equals(%{x,y}, a)", "unknown attribute %{x,y}"),
        ("path-template('/a/{x}.json')", "a name in braces must be a whole segment"),
        ("path('/a/../b')", "which no path that is served has"),
        ("path('/caf%C3%A9')", "paths of rules are written decoded"),
        ("gte(1)", "needs exactly two values"),
        ("gte(1, 2, 3)", "needs exactly two values"),
        ("in(array={a})", "in needs a value for value"),
        ("qparams-blacklist()", "qparams-blacklist needs a value for params"),
        ("qparams-size(x)", "'x' is not a number"),
        ("ip-access-control(acl={x})", "not an address or network with allow or deny"),
        ("ip-access-control(acl={'x allow'})", "'x' is not an address or network"),
        ("regex('(')", "the pattern cannot be read by RE2: missing )"),
        ("regex(pattern=a, full-match=yes)", "full-match is true or false"),
        ("bson-request-prop-equals(key=a, value=bar)", "'bar' is not JSON"),
        ("method(GET) or PATH('/a')", "unknown predicate PATH"),
        ("secure(x)", "secure takes fewer values"),
        ("path(where='/a')", "path has no parameter where"),
    ],
)
def test_mistakes_are_told_with_their_column(text: str, message: str) -> None:
    with pytest.raises(PredicateError) as raised:
        compile_predicate(text, RESOLVERS.variables)
    assert message in str(raised.value)


def test_a_predicate_knows_the_variables_it_asks_for() -> None:
    predicate = compile_predicate("equals(@user._id, @qparams['x'])", RESOLVERS.variables)
    assert predicate.variables == {"@user._id", "@qparams['x']"}


async def test_plugins_can_bring_variables() -> None:
    with pytest.raises(PredicateError):
        compile_predicate("equals(@tenant, a)", RESOLVERS.variables)
    compile_predicate("equals(@tenant, a)", RESOLVERS.variables | {"tenant"})


async def test_head_is_a_get_that_keeps_its_body_to_itself() -> None:
    assert await evaluate("method(GET)", "HEAD", "/a")
    assert not await evaluate("method(HEAD)", "GET", "/a")
    assert make_exchange().account is ADA


@pytest.mark.parametrize(
    ("text", "column", "what"),
    [
        ("')0{}", 1, "the quote ' is not closed"),
        ("path('/a') and '${id}=${id}", 16, "the quote ' is not closed"),
        ('equals(${id}, "x)', 15, 'the quote " is not closed'),
    ],
)
def test_an_open_quote_is_named_at_its_own_column_whatever_stands_behind_it(
    text: str, column: int, what: str
) -> None:
    with pytest.raises(PredicateError) as refused:
        compile_predicate(text, RESOLVERS.variables)

    assert (refused.value.column, refused.value.what) == (column, what)


# --- what the service does not look at, or looks at differently -----------------------------------


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE"])
@pytest.mark.parametrize(
    "text",
    [
        "bson-request-prop-equals(key=owner, value=@user._id)",
        "bson-request-contains(owner)",
        "bson-request-array-is-subset(key=tags, values={1})",
        "equals(@request.body.owner, @user._id)",
        "exists(@request.body.owner)",
    ],
)
async def test_a_body_that_the_service_ignores_satisfies_no_condition(
    text: str, method: str
) -> None:
    reads: list[int] = []
    body = {"owner": "ada", "tags": [1]}
    assert await evaluate(text, "POST", "/box", body=body)
    assert not await evaluate(text, method, "/box/1", body=body, on_body=lambda: reads.append(1))
    assert reads == []


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/box", True),
        ("GET", "/box/1", True),
        ("GET", "/box/_size", True),
        ("PATCH", "/box/*", True),
        ("DELETE", "/box/*", True),
        ("DELETE", "/box/1", True),
        ("PATCH", "/box/1", True),
        ("PATCH", "/box/1?wm=upsert", False),
        ("PUT", "/box/1?wm=upsert", False),
        ("PUT", "/box/1?wm=insert", False),
        ("POST", "/box", False),
        ("GET", "/box/_aggrs/s", False),
        ("GET", "/box/_meta", False),
        ("GET", "/box/_indexes", False),
        ("PUT", "/box", False),
    ],
)
async def test_a_filter_that_the_service_ignores_satisfies_no_condition(
    method: str, path: str, expected: bool
) -> None:
    sign = "&" if "?" in path else "?"
    filter = "filter=%7B%22owner%22%3A%22ada%22%7D"
    text = "equals(@filter.owner, @user._id)"
    assert await evaluate(text, method, f"{path}{sign}{filter}") is expected


@pytest.mark.parametrize(
    "body",
    [
        [{"status": "closed"}],
        [{"a": 1}, {"status": "closed"}],
        {"$set": {"status": "closed"}},
        {"$rename": {"a": "status"}},
        {"$unset": {"status": 1}},
        {"status.x": "closed"},
        {"status": "closed"},
        "text",
    ],
)
async def test_a_variable_of_the_body_is_what_will_be_stored(body: Any) -> None:
    for method, path in (("PATCH", "/box/1"), ("POST", "/box")):
        assert not await evaluate("not exists(@request.body.status)", method, path, body=body)
    assert await evaluate("not exists(@request.body.status)", "POST", "/box", body={"a": 1})


async def test_of_two_spellings_of_a_property_nobody_knows_which_is_stored() -> None:
    body = {"a": {"b": "x"}, "a.b": "y"}
    assert not await evaluate("equals(@request.body.a.b, 'x')", "POST", "/box", body=body)
    assert not await evaluate("not equals(@request.body.a.b, 'x')", "POST", "/box", body=body)


async def test_a_variable_whose_plugin_fails_is_neither_there_nor_absent() -> None:
    class Failing(VariableResolver):
        name: ClassVar[str] = "failing"
        variable: ClassVar[str] = "blocked"

        async def resolve_variable(self, exchange: Exchange, expression: str) -> Any:
            raise RuntimeError

    resolvers = Resolvers(decode, [Failing(PluginConfig())])
    for text in ("exists(@blocked.reason)", "not exists(@blocked.reason)"):
        predicate = compile_predicate(text, resolvers.variables)
        assert not await holds(predicate, RequestView(make_exchange(), resolvers))


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("bson-request-whitelist(years.2024)", {"years.2024": 1}, True),
        ("bson-request-whitelist(years.2024)", {"years": {"2024": 1}}, True),
        ("bson-request-whitelist(years.2024)", {"years.2023": 1}, False),
        ("bson-request-whitelist(years.2024)", {"years": 5}, False),
        ("bson-request-whitelist(years.2024)", {"$unset": {"years": 1}}, False),
        ("not bson-request-prop-equals(key=years.2024, value=9)", {"years": {"2024": 9}}, False),
        ("bson-request-prop-equals(key=years.2024, value=9)", {"years": 9}, False),
        ("bson-request-prop-equals(key=years.2024, value=9)", {"years.2024": 9}, True),
        ("bson-request-prop-equals(key=years.2024, value=9)", {"years": {"2024": 9}}, True),
        ("bson-request-prop-equals(key=a.1, value=9)", {"a": [8, 9]}, True),
        ("bson-request-prop-equals(key=a.1, value=9)", {"a": [9]}, False),
        ("bson-request-whitelist(a.b)", {"a.².b": 5}, False),
        ("bson-request-whitelist(a.b)", {"a.٣.b": 1}, False),
        ("bson-request-whitelist(a.b)", {"a.0.b": 1}, False),
        ("bson-request-blacklist(a.b)", {"a.0.b": 1}, False),
        ("not bson-request-blacklist(a.b)", {"a.0.b": 1}, False),
        ("bson-request-whitelist(a)", {"a.0.b": 1}, True),
        ("bson-request-contains(a.0)", {"a": [1]}, True),
    ],
)
async def test_a_step_of_digits_is_a_name_or_a_position(
    text: str, body: Any, expected: bool
) -> None:
    assert await evaluate(text, "PATCH", "/users/1", body=body) is expected


@pytest.mark.parametrize(
    "rule",
    [
        "path-template('/box/{id}') and equals(@user.home, '/box/${id}')",
        "equals(@user.home, %R)",
        "equals(@request.relativePath, @user.home)",
        "path-prefix('/box') and equals(@user.home, '/box${remaining}')",
        "path-template('/box/{id}') and contains(value=%u, search={${id}})",
    ],
)
async def test_an_id_does_not_lose_its_type_in_a_text(rule: str) -> None:
    account = Account("5", (), {"_id": "5", "home": "/box/5"})
    assert await evaluate(rule, "GET", "/box/5", account=account)
    assert await evaluate(rule, "GET", "/box/5?id_type=STRING", account=account)
    assert not await evaluate(rule, "GET", "/box/5?id_type=NUMBER", account=account)


def test_a_part_of_the_path_inside_json_is_refused_when_the_rule_is_written() -> None:
    text = "path-template('/box/{id}') and not bson-request-prop-equals(key=s, value='\"${id}\"')"
    with pytest.raises(PredicateError, match="stands alone here"):
        compile_predicate(text, RESOLVERS.variables)


async def test_stages_of_a_pipeline_follow_each_other_on_one_document() -> None:
    text = "bson-request-prop-equals(key=status, value='\"open\"')"
    first, second = {"$set": {"status": "open"}}, {"$set": {"z": 1}}
    for body in ([first, second], [second, first], [first, {"$unset": "z"}]):
        assert await evaluate(text, "PATCH", "/box/1", body=body)
    for last in ({"$set": {"status": "x"}}, {"$unset": "status"}, {"$project": {"z": 1}}):
        assert not await evaluate(text, "PATCH", "/box/1", body=[first, last])


async def test_too_many_different_properties_count_as_everything() -> None:
    body = {f"p{number}": 1 for number in range(6000)}
    for text in ("bson-request-blacklist(x)", "not bson-request-blacklist(x)"):
        assert not await evaluate(text, "POST", "/box", body=body)
    many = [{"a": number} for number in range(6000)]
    assert await evaluate("bson-request-blacklist(x)", "POST", "/box", body=many)


# --- what the filter of an upsert stores ----------------------------------------------------------

IS_ONE = "bson-request-prop-equals(key=a, value=1)"
ONLY_B = "bson-request-whitelist(b)"
HAS_A = "bson-request-contains(a)"
STORED, UNTOUCHED, UNCLEAR = (True, False, True), (False, True, False), (False, False, False)
ELSEWHERE = (False, False, False)  # a property that is neither `a` nor `b`


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        ({"a": 1}, STORED),
        ({"a": {"$eq": 1}}, STORED),
        ({"a": {"$in": [1]}}, STORED),
        ({"a": {"$all": [1]}}, STORED),
        ({"$and": [{"c": {"$gt": 0}}, {"a": 1}]}, STORED),
        ({"$or": [{"a": 1}]}, STORED),
        ({"a": {"$gt": 0}}, UNTOUCHED),
        ({"a": {"$ne": 1, "$exists": True}}, UNTOUCHED),
        ({"a": {"$regex": "1", "$options": "i"}}, UNTOUCHED),
        ({"a": {"$regularExpression": {"pattern": "1", "options": ""}}}, UNTOUCHED),
        ({"_id": 1}, UNTOUCHED),
        ({"$expr": {"$eq": ["$a", 1]}}, UNTOUCHED),
        ({"$comment": "a"}, UNTOUCHED),
        ({"c": 1}, ELSEWHERE),
        ({"a": {"$in": [1, 2]}}, UNCLEAR),
        ({"a": {"$in": []}}, UNCLEAR),
        ({"a": {"$all": [1, 1]}}, UNCLEAR),
        ({"a": {"$in": 1}}, UNCLEAR),
        ({"a": {"$elemMatch": {"$eq": 1}}}, UNCLEAR),
        ({"a": {"$not": {"$eq": 2}}}, UNCLEAR),
        ({"$or": [{"a": 1}, {"a": 1}]}, UNCLEAR),
    ],
)
@pytest.mark.parametrize("parameter", ["filter", "shardkey"])
async def test_the_equalities_of_an_upsert_are_written_as_its_body_is(
    parameter: str, filter: Any, expected: tuple[bool, bool, bool]
) -> None:
    """MongoDB begins the new document with them; what cannot be told satisfies no condition."""
    path = f"/box/new?wm=upsert&{parameter}={quote(json.dumps(filter))}"
    found = [await evaluate(text, "PATCH", path, body={"b": 2}) for text in (IS_ONE, ONLY_B, HAS_A)]

    assert tuple(found) == expected


@pytest.mark.parametrize("path", ["/box/1?wm=update&filter=", "/box/*?wm=upsert&filter="])
async def test_a_filter_of_an_update_that_creates_nothing_is_not_written(path: str) -> None:
    path += quote('{"a":1}')
    found = [await evaluate(text, "PATCH", path, body={"b": 2}) for text in (IS_ONE, ONLY_B, HAS_A)]

    assert found == list(UNTOUCHED)


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("bson-request-prop-equals(key=items.n, value=1)", {"items": [{"n": 1}, {"n": 1}]}, True),
        ("bson-request-prop-equals(key=items.n, value=1)", {"items": [{"n": 1}, {"n": 2}]}, False),
        ("bson-request-contains(items.n)", {"items": [{"n": 1}, {"n": 2}]}, True),
        ("bson-request-contains(items.n)", {"items": [{"n": 1}, {"m": 2}]}, False),
        ("bson-request-contains(items.n)", {"items": [{"n": 1}, 2]}, False),
        ("bson-request-contains(items.n)", {"items": []}, False),
        ("bson-request-contains(items.n)", {"items": "n"}, False),
        ("bson-request-contains(a.b)", {"a": 1}, False),
    ],
)
async def test_of_an_array_every_element_counts(text: str, body: Any, expected: bool) -> None:
    assert await evaluate(text, "POST", "/box", body=body) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"$set": {"a": 1}, "$inc": {"n": 1}}, True),
        ({"a": 1, "$unset": {"ab": 1}, "$rename": {"x": "y"}}, True),
        ({"$set": {"a": 1}, "$inc": {"a": 1}}, False),
        ({"a": 1, "$unset": {"a.b": 1}}, False),
        ({"a": 1, "$rename": {"x": "a"}}, False),
        ({"a": 1, "$rename": {"a": "x"}}, False),
        ({"$inc": {"n": 1}}, False),
    ],
)
async def test_operators_on_other_properties_leave_a_stored_value_certain(
    body: Any, expected: bool
) -> None:
    assert await evaluate(IS_ONE, "PATCH", "/box/1", body=body) is expected


@pytest.mark.parametrize("body", ["text", 5, [1], [{"b": 1}, "text"]])
@pytest.mark.parametrize(("method", "path"), [("POST", "/box"), ("PATCH", "/box/1")])
async def test_what_no_document_is_satisfies_no_condition(
    method: str, path: str, body: Any
) -> None:
    for text in (IS_ONE, ONLY_B, HAS_A):
        assert not await evaluate(text, method, path, body=body)
    for text in (IS_ONE, ONLY_B):
        assert not await evaluate(f"not {text}", method, path, body=body)


async def test_two_at_signs_are_one_that_stands_for_itself() -> None:
    for text in ("@@username", "'@username'"):
        assert await evaluate(f"equals(@qparams['x'], {text})", "GET", "/box?x=@username")
        assert not await evaluate(f"equals(@qparams['x'], {text})", "GET", "/box?x=ada")


async def test_a_rule_with_many_paths_is_found_at_each_of_them() -> None:
    paths = ", ".join(f"'/p{number}'" for number in range(100))
    for number in (0, 63, 64, 99):
        assert await evaluate(f"path({paths})", "GET", f"/p{number}")
    assert not await evaluate(f"path({paths})", "GET", "/p100")


def test_a_predicate_of_more_than_64_kib_is_refused() -> None:
    longest = "path('/" + "a" * (64 * 1024 - 9) + "')"
    compile_predicate(longest, RESOLVERS.variables)
    with pytest.raises(PredicateError, match="longer than 65536 characters"):
        compile_predicate(f"{longest} ", RESOLVERS.variables)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("request-larger-than(5)", True),
        ("request-larger-than(500)", False),
        ("request-smaller-than(500)", True),
        ("request-smaller-than(5)", False),
    ],
)
async def test_a_compressed_body_is_as_long_as_what_its_service_reads(
    text: str, expected: bool
) -> None:
    """The length that is announced is that of the compressed one."""
    headers = {"Content-Encoding": "gzip", "Content-Length": "100"}
    body = {"text": "x" * 50}
    assert await evaluate(text, "POST", "/things", body=body, headers=headers) is expected
