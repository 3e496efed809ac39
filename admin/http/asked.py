"""What a request gives to the `Admin` method of its route: from its path, query, headers and body."""

import re
from typing import Any

import msgspec
from starlette.datastructures import QueryParams
from starlette.requests import Request

from lithify.admin.http.paging import LIMIT
from lithify.admin.http.routes import Parameter, Route
from lithify.store.errors import InvalidRequest

__all__ = ["TooSlow", "arguments_of", "body_of", "events_of"]


class _TooLarge(InvalidRequest):
    http_status = 413


class _NotJson(InvalidRequest):
    http_status = 415


class TooSlow(InvalidRequest):
    http_status = 408


async def body_of(request: Request, route: Route, bytes_max: int) -> Any:
    """Raises InvalidRequest; ClientDisconnect if it ends before its length."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise _TooLarge(f"the body is larger than {bytes_max} bytes")
    if request.method in ("GET", "DELETE"):
        return None
    if body and request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise _NotJson("give the body as application/json")
    if route.body is None:
        if body not in (b"", b"{}"):
            raise InvalidRequest("this request takes no body")
        return None
    try:
        return msgspec.json.decode(body or b"{}", type=route.body)
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"body: {_where(error)}") from None
    except UnicodeDecodeError:
        raise InvalidRequest("body: it is not UTF-8") from None


def _where(error: msgspec.DecodeError) -> str:
    """msgspec's text names fields and types, never values."""
    return str(error)[:300]


def arguments_of(route: Route, request: Request, body: Any) -> tuple[dict[str, Any], int, str | None]:
    """Of the method; and which page. Raises InvalidRequest."""
    query = request.query_params
    pages = bool(route.lists) and route.verb == "GET"
    named = {each.name for each in route.parameters if each.place == "query"}
    named |= {"limit", "cursor"} if pages else set()
    _check_names(query, named, {each.name for each in route.parameters if _takes_many(each)})
    arguments: dict[str, Any] = {}
    ids: list[str] = []
    for each in route.parameters:
        match each.place:
            case "path" if each.argument == "id":
                ids.append(str(request.path_params[each.name]))
            case "path":
                arguments[each.argument] = _converted(each, request.path_params[each.name])
            case "query":
                given = query.getlist(each.name)
                if given:
                    arguments[each.argument] = _converted(each, given if _takes_many(each) else given[-1])
                elif each.required:
                    raise InvalidRequest(f"query: {each.name} is missing")
            case "header":
                value = request.headers.get(each.name)
                if value is not None:
                    arguments[each.argument] = value
            case "body":
                arguments[each.argument] = getattr(body, each.name)
    if ids:
        arguments["id"] = "/".join(ids)
    limit = _converted(_LIMIT, query["limit"]) if pages and "limit" in query else LIMIT
    return arguments, limit, query.get("cursor") if pages else None


def events_of(request: Request) -> tuple[str | None, int | None, str | None]:
    """Topic, partition and cursor of a stream of events. Raises InvalidRequest."""
    query = request.query_params
    _check_names(query, {"topic", "partition"}, set())
    topic, number = query.get("topic") or None, query.get("partition") or None
    if number is not None and topic is None:
        raise InvalidRequest("query: give the topic of that partition, too")
    partition = None if number is None else _converted(_PARTITION, number)
    return topic, partition, request.headers.get("last-event-id")


def _check_names(query: QueryParams, named: set[str], many: set[str]) -> None:
    """Each that is known, once: what stands before this server may take the first of two, where it takes the last."""
    unknown = sorted(set(query) - named)
    if unknown:
        known = f"; it takes {', '.join(sorted(named))}" if named else "; it takes none"
        raise InvalidRequest(f"query: there is no {unknown[0][:100]!r} here{known}")
    for name in set(query) - many:
        if len(query.getlist(name)) > 1:
            raise InvalidRequest(f"query: {name} is given more than once")


# One for each value. msgspec also takes 1e2 and -0 for numbers; and null for a number that may be left out, which in a
# path would make one partition all of them.
_SPELLINGS: dict[Any, re.Pattern[str]] = {
    int: re.compile(r"0|-?[1-9][0-9]*"),
    int | None: re.compile(r"0|-?[1-9][0-9]*"),
    bool: re.compile(r"true|false"),
}
_PARTITION = Parameter("partition", "partition", "query", int, False, None)
_LIMIT = Parameter("limit", "limit", "query", int, False, LIMIT)


def _takes_many(each: Parameter) -> bool:
    return isinstance(each.default, tuple)


def _converted(each: Parameter, given: Any) -> Any:
    if given == "" and each.default is None and not each.required:
        return None
    if given == "" and each.place == "query" and type(None) in getattr(each.type, "__args__", ()):
        return None
    spelling = _SPELLINGS.get(each.type)
    if spelling is not None and spelling.fullmatch(given) is None:
        raise InvalidRequest(f"{each.name}: Expected `{'bool' if each.type is bool else 'int'}`, got `str`")
    try:
        found = msgspec.convert(given, each.type, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{each.name}: {_where(error)}") from None
    if found is None:  # msgspec takes the word null for nothing
        raise InvalidRequest(f"{each.name}: Expected a value; leave it empty for none")
    return found
