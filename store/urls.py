"""URLs as they may be shown: in messages, logs and tables, where nothing may be that opens a door."""

__all__ = ["shown"]


def shown(url: str) -> str:
    """The URL without user, password, query and fragment, whatever these hold.

    A password may hold any character unescaped, '@', '/', '?' and '#' among them. So what stands before the last '@' is
    taken for one, and where a query may begin before that '@', only the scheme is left.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or (scheme == "file" and rest.startswith("/")):
        return url  # a path of this machine, which may hold any of these characters
    before, at, place = rest.rpartition("@")
    if "?" in before or "#" in before:
        return f"{scheme}://…"
    place = place.partition("?")[0].partition("#")[0]
    return f"{scheme}://…@{place}" if at else f"{scheme}://{place}"
