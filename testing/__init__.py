"""For tests: an atomic S3 server on loopback, one that fails on request, and a pytest plugin (docs/testing.md).

Importing this is cheap (the plugin loads it in every pytest run); moto is loaded when a server starts.
"""

from typing import TYPE_CHECKING

if __name__ != "lithify.testing":
    raise ImportError("import lithify.testing, not testing: a second copy of its classes would not match the first")

if TYPE_CHECKING:
    from lithify.testing.server import S3Server

__all__ = ["s3"]


def s3(port: int = 0) -> "S3Server":
    """Start an atomic S3 on 127.0.0.1; `with s3() as server:` stops it. Needs `pip install 'lithify[testing]'`.

    `port` 0 takes a free one. See `lithify.testing.server.S3Server` for what it offers.
    """
    from lithify.testing.server import S3Server

    return S3Server(port)
