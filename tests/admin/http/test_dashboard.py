"""The dashboard: its files are served as what they are, need nothing from elsewhere, and ask only what the API has."""

import asyncio
import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

import lithify
from lithify.admin.http.access import Door, Tokens
from lithify.admin.http.app import make_app
from lithify.admin.http.gate import HEADERS, Gate
from lithify.admin.http.routes import ROUTES
from lithify.admin.http.streams import Streams
from lithify.events.feed import Feed
from lithify.manifest.words import DEBT_TEXTS

STATIC = Path(__file__).parents[3] / "admin" / "http" / "static"
FILES = sorted(STATIC.iterdir())
SCRIPTS = [file for file in FILES if file.suffix == ".js"]
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
EVENTS = ("GET", "/v1/events")  # the one route beside the table; its arguments are those of events_of
SVG = "http://www.w3.org/2000/svg"  # the name of a kind of element; nothing is asked there
CALL = re.compile(r'"(GET|POST|PATCH|DELETE) (/v1/[^"?]*)(?:\?([^"]*))?"')
# What would make markup or code of a text, or what the Content-Security-Policy refuses.
UNSAFE = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|document\.write|\beval\b|srcdoc"
    r"|new Function|javascript:|cssText|\"style\"|'style'"
)


def ids(file: Path) -> str:
    return file.name


def get(app: Any, path: str, method: str = "GET") -> tuple[int, dict[str, str], bytes]:
    """What the application answers to a request without a token."""
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8480")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8480),
    }
    asyncio.run(app(scope, receive, send))
    headers = {name.decode().lower(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:])


@pytest.fixture
def app(warehouse: lithify.Warehouse) -> Any:
    """One that asks for tokens."""
    tokens = Tokens.parse(f"read:{'r' * 32}", "tokens")
    gate = Gate(Door(["127.0.0.1"], loopback=True), lambda: tokens)
    return make_app(lithify.Admin(warehouse), gate, lambda: None, Streams(Feed(warehouse.driver)))


@pytest.mark.parametrize("file", FILES, ids=ids)
def test_each_file_is_served_to_everybody_with_its_type_and_the_strict_headers(app: Any, file: Path) -> None:
    status, headers, body = get(app, "/" if file.name == "index.html" else f"/static/{file.name}")
    assert (status, headers["content-type"], body) == (200, TYPES[file.suffix], file.read_bytes())
    assert {name.lower(): value for name, value in HEADERS.items()}.items() <= headers.items()
    assert headers["content-length"] == str(len(body))


def test_the_page_is_open_and_what_it_shows_is_not(app: Any) -> None:
    assert get(app, "/")[0] == 200
    assert get(app, "/v1/topics")[0] == 401


@pytest.mark.parametrize("path", ["/static", "/static/", "/static/index.html", "/static/../app.py", "/static/app.py"])
def test_nothing_else_is_served(app: Any, path: str) -> None:
    assert get(app, path)[0] == 404


def test_the_page_is_read_only(app: Any) -> None:
    status, headers, _ = get(app, "/", "POST")
    assert status == 405
    assert set(headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize("file", FILES, ids=ids)
def test_no_file_asks_another_server(file: Path) -> None:
    text = file.read_text(encoding="utf-8").replace(SVG, "")
    assert re.findall(r"\w+://\S+|[\"'(]//\w\S*|@import|url\(", text) == []


@pytest.mark.parametrize("file", FILES, ids=ids)
def test_no_file_holds_inline_code_or_styles(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert UNSAFE.findall(text) == []
    if file.suffix in (".html", ".svg"):
        assert re.findall(r"(?i)<style|\sstyle\s*=|\son\w+\s*=|<script(?![^>]*\ssrc=)", text) == []


def test_whatever_a_file_names_beside_it_exists() -> None:
    """The page's scripts, styles and icon, and the modules that scripts import; and each file is reached."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href)="static/([^"]+)"', page))
    for file in SCRIPTS:
        named |= set(re.findall(r'(?:from|import) "\./([^"]+)"', file.read_text(encoding="utf-8")))
    assert named == {file.name for file in FILES} - {"index.html"}


def test_no_script_waits_for_another_to_be_asked_for() -> None:
    """A module that only a module names is asked for once that one has come."""
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    named = re.findall(r'(?:modulepreload" href|<script(?: type="module")? src)="static/([^"]+)"', page)
    assert sorted(named) == [file.name for file in SCRIPTS]


def test_every_request_of_the_page_is_in_the_table_of_routes() -> None:
    texts = {file.name: file.read_text(encoding="utf-8") for file in SCRIPTS}
    assert [name for name, text in texts.items() if "/v1/" in text] == ["api.js"]
    asked = CALL.findall(texts["api.js"])
    assert len(asked) == texts["api.js"].count("/v1/") > 10
    known = {(route.verb, route.path): route for route in ROUTES}
    assert (*EVENTS, "topic&partition") in asked
    for verb, path, names in asked:
        if (verb, path) == EVENTS:
            continue
        route = known[verb, path]
        taken = {each.name for each in route.parameters if each.place in ("query", "body")}
        if route.lists and verb == "GET":
            taken |= {"limit", "cursor"}
        assert set(filter(None, names.split("&"))) <= taken, f"{verb} {path}"


def test_debts_have_the_words_of_the_command_line() -> None:
    text = (STATIC / "words.js").read_text(encoding="utf-8")
    said = re.search(r"DEBTS = {(.*?)};", text, re.DOTALL)
    assert said is not None
    assert dict(re.findall(r'^ *"?([\w-]+)"?: "([^"]+)",$', said[1], re.MULTILINE)) == {**DEBT_TEXTS}
