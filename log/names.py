"""The names that users give and manifests keep: of consumers, checkpoints, producers and applications. They appear in
tables, logs and messages, and must be encodable to be stored."""

from lithify.store.errors import InvalidRequest

__all__ = ["NAME_CHARACTERS_MAX", "check_name"]

NAME_CHARACTERS_MAX = 249


def check_name(whose: str, name: object) -> str:
    """Raises InvalidRequest; `whose` name it is begins the message. Lone surrogates are not printable either."""
    if type(name) is not str or not 1 <= len(name) <= NAME_CHARACTERS_MAX or not name.isprintable():
        raise InvalidRequest(f"{whose} must be a string of 1 to {NAME_CHARACTERS_MAX} printable characters")
    return name
