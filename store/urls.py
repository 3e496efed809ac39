"""URLs as shown in messages, logs and tables, without anything that gives access."""

__all__ = ["shown"]


def shown(url: str) -> str:
    """The URL without user, password, query and fragment, whatever these contain.

    A password may contain any character unescaped, including '@', '/', '?' and '#'. So everything before the last '@'
    counts as one; if a query may begin before that '@', only the scheme is left.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or (scheme == "file" and rest.startswith("/")):
        return url  # a path on this machine, which may contain any of these characters
    before, at, place = rest.rpartition("@")
    if "?" in before or "#" in before:
        return f"{scheme}://…"
    place = place.partition("?")[0].partition("#")[0]
    return f"{scheme}://…@{place}" if at else f"{scheme}://{place}"
