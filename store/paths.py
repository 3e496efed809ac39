"""Valid keys: checked by every store, so that one key means one object on each of them."""

from lithify.store.errors import InvalidRequest

__all__ = ["check_key", "check_prefix", "check_range"]

_KEY_BYTES_MAX = 1024  # in UTF-8: the limit of S3, GCS and Azure


def check_key(key: str) -> str:
    """Refuses keys that are not relative and '/'-separated, or that could name another object on some store."""
    parts = key.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise InvalidRequest(
            f"key {key[:300]!r} is not allowed: use relative parts between '/', none empty, '.' or '..'"
        )
    if not key.isprintable() or "\\" in key:
        raise InvalidRequest(f"key {key[:300]!r} is not allowed: it contains a backslash or an unprintable character")
    if len(key.encode()) > _KEY_BYTES_MAX:
        raise InvalidRequest(f"key {key[:300]!r}… is not allowed: it is longer than {_KEY_BYTES_MAX} bytes of UTF-8")
    return key


def check_prefix(prefix: str) -> str:
    """A prefix to list: empty for the whole root, else a key and a '/'."""
    if prefix and not prefix.endswith("/"):
        raise InvalidRequest(f"prefix {prefix[:300]!r} is not allowed: end it with '/'")
    if prefix:
        check_key(prefix[:-1])
    return prefix


def check_range(key: str, start: int, length: int) -> None:
    if start < 0 or length < 0:
        raise InvalidRequest(f"{key}: cannot read {length} bytes from {start}: neither may be negative")
