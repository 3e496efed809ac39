"""The OpenAPI document: complete, closed in itself, and true."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

import lithify
from lithify.admin.http.openapi import document
from lithify.admin.http.problems import Problem
from lithify.admin.http.routes import ROUTES
from lithify.admin.partitions import Answers
from lithify.store.driver import new_id
from tests.admin.served import Served
from tests.admin.test_operations import COMPACTED, damage_head


@pytest.fixture
def said() -> Any:
    return json.loads(msgspec.json.encode(document()))


def parts(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from parts(each)


def test_it_is_complete_and_closed_in_itself(said: Any) -> None:
    assert said["openapi"] == "3.1.0"
    pages = {("GET", path) for path in ("/v1/events", "/metrics", "/openapi.json", "/healthz", "/readyz")}
    assert {(verb.upper(), path) for path, item in said["paths"].items() for verb in item} == pages | {
        (route.verb, route.path) for route in ROUTES
    }
    names = said["components"]["schemas"]
    used = {each["$ref"].removeprefix("#/components/schemas/") for each in parts(said) if "$ref" in each}
    assert used == names.keys()
    ids = [operation["operationId"] for item in said["paths"].values() for operation in item.values()]
    assert len(set(ids)) == len(ids)
    for path, item in said["paths"].items():
        for verb, operation in item.items():
            given = [(each["in"], each["name"]) for each in operation["parameters"]]
            assert len(set(given)) == len(given)
            in_path = {name for place, name in given if place == "path"}
            assert in_path == set(re.findall(r"{(\w+)}", path))
            assert all(each["required"] for each in operation["parameters"] if each["in"] == "path")
            assert operation["summary"]
            assert operation["responses"]
            assert ("requestBody" in operation) <= (verb in ("post", "patch"))
    for each in parts(names):
        if isinstance(each.get("required"), list):
            assert set(each["required"]) <= each["properties"].keys()


def fits(value: Any, schema: Any, names: Any) -> bool:
    """Whether it has the form that a schema says: types, required and known fields, enumerations."""
    if "$ref" in schema:
        return fits(value, names[schema["$ref"].rpartition("/")[2]], names)
    if "anyOf" in schema:
        return any(fits(value, each, names) for each in schema["anyOf"])
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    if wanted and not any(value is None if it == "null" else isinstance(value, kinds[it]) for it in wanted):
        return False
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return all(fits(each, schema["items"], names) for each in value)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        return set(schema.get("required", ())) <= value.keys() <= known.keys() and all(
            fits(each, known[name], names) for name, each in value.items()
        )
    return True


def in_two_homes(warehouse: lithify.Warehouse) -> lithify.Topic:
    """Partition 0 has a run in the cold home, and one in the warehouse."""
    moves: dict[str, Any] = {"local.retention.bytes": 0, "hot.retain.segments": 0}
    tiers: dict[str, Any] = {"l0.segments.tier": 2, "min.cleanable.dirty.ratio": 1}
    topic = warehouse.create_topic("users", 2, COMPACTED | moves | tiers | {"cold.location": f"memory://{new_id()}"})
    for settings in (None, dict.fromkeys(moves)):
        if settings is not None:
            topic.alter(settings)
        for _ in range(2):
            topic.partition(0).append([lithify.Record(b"k", b"v")])
        lithify.Compactor(warehouse, engine="local").run_once()
    return topic


def test_answers_are_as_it_says(warehouse: lithify.Warehouse, serve: Callable[..., Served], said: Any) -> None:
    topic = in_two_homes(warehouse)
    topic.append([lithify.Record(b"k", b"v"), lithify.Record(b"l", None)])
    topic.partition(0).append([lithify.Record(b"k", b"v")], txn=("nightly", 1))
    topic.consumer("c").close()
    server = serve(lithify.Admin(warehouse))
    job = server("POST", "/v1/topics/users/partitions/0/compactions", "{}").json["id"].rpartition("/")[2]
    names = {"topic": "users", "partition": 0, "job": job, "name": "c", "application": "nightly"}
    bodies: dict[str, Any] = {
        "create_topic": {"name": "more"},
        "alter_topic": {"config": {"retention.ms": 5}},
        "delete_records": {"before_offset": 1},
        "reset_consumer": {"to": "latest"},
        "create_checkpoint": {"name": "c"},
    }
    order = {"create_topic": -3, "create_checkpoint": -2, "delete_topic": 9}  # what others need first, or not any more
    done: set[str] = set()
    for route in sorted(ROUTES, key=lambda it: (order.get(it.call, 0), "partition" not in it.path)):
        operation = said["paths"][route.path][route.verb.lower()]
        if route.call in done and route.verb != "GET":
            server("POST", "/v1/topics/users/checkpoints", '{"name": "c"}')  # again, for its second route
            continue
        body = json.dumps(bodies.get(route.call, {})) if route.verb in ("POST", "PATCH") else None
        reply = server(
            route.verb, route.path.format_map(names) + ("?key_base64=aw==" * (route.call == "history")), body
        )
        assert reply.status == route.status, (route, reply)
        done.add(route.call)
        schema = operation["responses"][str(route.status)]["content"]["application/json"]["schema"]
        assert fits(reply.json, schema, said["components"]["schemas"]), (route, reply.json)
        type_ = Answers[route.lists] if route.lists else route.answer
        msgspec.json.decode(reply.body, type=type_)
        assert ("location" in reply.headers) == bool(route.location)
        if route.location:
            assert server("GET", reply.headers["location"]).status == 200
    assert done == {route.call for route in ROUTES}


def test_errors_are_as_it_says(warehouse: lithify.Warehouse, serve: Callable[..., Served], said: Any) -> None:
    warehouse.create_topic("users", 1)
    damage_head(warehouse, "users", 0)
    server = serve(lithify.Admin(warehouse))
    for verb, path, status in (
        *(("GET", "/v1/topics/nobody", 404), ("POST", "/v1/topics", 400), ("PUT", "/v1/topics", 405)),
        *(("GET", "/nothing", 404), ("GET", "/v1/topics/users/partitions/0", 500)),
    ):
        reply = server(verb, path)
        assert reply.status == status
        msgspec.json.decode(reply.body, type=Problem)
        assert fits(reply.json, said["components"]["schemas"]["Problem"], said["components"]["schemas"])
