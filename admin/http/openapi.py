"""The OpenAPI document, made from the table of routes and the types of `Admin`."""

import importlib.metadata
from collections.abc import Mapping
from typing import Any

import msgspec

from lithify.admin.compactions import JOB_ID
from lithify.admin.http.problems import MEDIA_TYPE, Problem
from lithify.admin.http.routes import ROUTES, Parameter, Route
from lithify.admin.partitions import Failed
from lithify.log.names import NAME_CHARACTERS_MAX
from lithify.manifest.keys import TOPIC_NAME

__all__ = ["document"]

_REF = "#/components/schemas/{name}"
_BASE64 = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_NARROWER: dict[str, dict[str, Any]] = {  # than their types: what is refused in any case
    "topic": {"pattern": f"^{TOPIC_NAME.pattern}$"},
    "partition": {"minimum": 0},
    "job": {"pattern": f"^{JOB_ID.pattern}$"},
    "name": {"minLength": 1, "maxLength": NAME_CHARACTERS_MAX},
    "application": {"minLength": 1, "maxLength": NAME_CHARACTERS_MAX},
}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
_PAGING = (
    {"name": "limit", "in": "query", "description": "The most items of this page.", "schema": LIMIT},
    {"name": "cursor", "in": "query", "description": "`next` of the page before.", "schema": {"type": "string"}},
)


def document() -> dict[str, Any]:
    types: list[Any] = [Problem, Failed]
    for route in ROUTES:
        types += [route.lists or route.answer, *(each.type for each in route.parameters)]
        types += [route.body] if route.body else []
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    found = dict(zip(map(id, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, found, found[id(Problem)])
    paths |= _pages(found[id(Problem)])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "lithify",
            "version": importlib.metadata.version("lithify"),
            "description": "Compaction, expiry and cleaning of keyed logs in an object store.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route, schemas: Mapping[int, Any], problem: Any) -> dict[str, Any]:
    parameters = [_parameter(each, schemas[id(each.type)]) for each in route.parameters if each.place != "body"]
    if route.lists and route.verb == "GET":
        parameters += _PAGING
    answer = _page(schemas[id(route.lists)]) if route.lists else schemas[id(route.answer)]
    said: dict[str, Any] = {"description": "Done.", "content": {"application/json": {"schema": answer}}}
    if route.location:
        said["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Where to ask for it again."}}
    wrong = {"description": "An error.", "content": {MEDIA_TYPE: {"schema": problem}}}
    operation: dict[str, Any] = {
        "operationId": f"{route.call}{'_in_partition' if _narrowed(route) else ''}",
        "summary": route.summary,
        "description": f"Role: {route.role.word}.",
        "tags": [_tag(route)],
        "parameters": parameters,
        "responses": {str(route.status): said, "4XX": wrong, "5XX": wrong},
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": any(each.place == "body" and each.required for each in route.parameters),
            "content": {"application/json": {"schema": schemas[id(route.body)]}},
        }
    return operation


def _pages(problem: Any) -> dict[str, Any]:
    """What is no operation on a warehouse."""
    wrong = {"description": "An error.", "content": {MEDIA_TYPE: {"schema": problem}}}
    text: dict[str, Any] = {"type": "string"}
    followed = [
        {"name": "topic", "in": "query", "schema": text},
        {"name": "partition", "in": "query", "schema": {"type": "integer"}, "description": "With its topic."},
        {"name": "Last-Event-ID", "in": "header", "schema": text, "description": "The id of the last event."},
    ]
    pages: list[tuple[str, str, str, str, list[dict[str, Any]]]] = [
        (
            "/v1/events",
            "events",
            "Server-sent events, from now or from Last-Event-ID on.",
            "text/event-stream",
            followed,
        ),
        ("/metrics", "metrics", "Metrics, as Prometheus reads them.", "text/plain", []),
        ("/openapi.json", "openapi", "This document.", "application/json", []),
        ("/healthz", "alive", "Whether the process is alive. Takes no token.", "application/json", []),
        ("/readyz", "ready", "Whether the store answers. Takes no token.", "application/json", []),
    ]
    return {
        path: {
            "get": {
                "operationId": name,
                "summary": summary,
                "tags": ["server"],
                "parameters": parameters,
                "responses": {
                    "200": {
                        "description": "Done.",
                        "content": {media: {"schema": {} if media == "application/json" else text}},
                    },
                    "4XX": wrong,
                    "5XX": wrong,
                },
            }
        }
        for path, name, summary, media, parameters in pages
    }


def _narrowed(route: Route) -> bool:
    """Whether it is a second route of a method, for one partition."""
    return sum(each.call == route.call for each in ROUTES) > 1 and "{partition}" in route.path


def _parameter(each: Parameter, schema: Any) -> dict[str, Any]:
    if each.name == "key_base64":
        schema = {"type": "string", "contentEncoding": "base64", "pattern": _BASE64}
    schema = {**schema, **_NARROWER.get(each.name, {})} if schema.get("type") else schema
    if "anyOf" in schema:  # a query has no null: what is left empty is left out
        empty = {"type": "string", "maxLength": 0}
        schema = {**schema, "anyOf": [empty if it == {"type": "null"} else it for it in schema["anyOf"]]}
    found: dict[str, Any] = {"name": each.name, "in": each.place, "required": each.required, "schema": schema}
    if each.default not in (None, ()):
        found["schema"] = {**schema, "default": each.default}
    return found


def _page(item: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["items", "next"],
        "properties": {
            "items": {"type": "array", "items": item},
            "next": {"type": ["string", "null"], "description": "The cursor of the next page; null: this is the last."},
            "failed": {"type": "array", "items": {"$ref": _REF.format(name="Failed")}},
        },
    }


def _tag(route: Route) -> str:
    words = [word for word in route.path.split("/") if word and not word.startswith("{")]
    return next((word for word in reversed(words) if word in _TAGS), words[1])


_TAGS = ("topics", "compactions", "checkpoints", "consumers", "transactions", "gc", "health", "overview")
