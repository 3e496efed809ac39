"""The dashboard's files: what a browser gets at `/`. They hold nothing of the warehouse; the page asks the API."""

from importlib import resources

__all__ = ["dashboard"]

_MEDIA_TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript", "svg": "image/svg+xml"}


def dashboard() -> dict[str, tuple[str, bytes]]:
    """By path: the media type and the content of each file. A file of another kind is a KeyError."""
    found: dict[str, tuple[str, bytes]] = {}
    for file in (resources.files("lithify.admin.http") / "static").iterdir():
        path = "/" if file.name == "index.html" else f"/static/{file.name}"
        found[path] = (_MEDIA_TYPES[file.name.rpartition(".")[2]], file.read_bytes())
    return found
