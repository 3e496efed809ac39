"""What tells an object from another that was there under the same key."""

__all__ = ["tag_of"]


def tag_of(etag: str, size: int, modified_ms: int | None) -> str:
    """Of an object of `size` bytes. In S3 its ETag is a checksum of the bytes, or unique. Other servers may give none
    (`""`), a weak one, or one for all objects; so size and time are part of the tag. "": there is none."""
    bare = etag.strip('"')
    return f"{bare} {size} {modified_ms}" if bare and not bare.startswith("W/") else ""
