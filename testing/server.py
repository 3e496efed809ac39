"""An S3 server on loopback whose conditional writes are atomic: moto, behind one lock and a keep-alive HTTP server.

moto alone checks `If-None-Match` and stores in two steps, so that two writers now and then both win; here one request
at a time reaches it, its body already read. Objects live in this process's memory.

    python -m lithify.testing.server --port 9000
"""

import argparse
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import Any

import boto3
from botocore.config import Config
from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from lithify.store.driver import new_id
from lithify.store.port import DELETE_KEYS_MAX

__all__ = ["S3Server"]

_HOST = "127.0.0.1"
_REGION = "us-east-1"


class S3Server:
    """A running server, as a context manager; other processes (Spark workers) reach it too.

    `options` are the storage options to reach it, `env` what to export for programs that read AWS_* variables.
    """

    def __init__(self, port: int = 0, observe: Callable[[str, str], object] | None = None) -> None:
        """`port` 0 takes a free one. `observe` gets the method and the query of each request, one at a time."""
        app = _OneAtATime(create_backend_app("s3"), observe)
        self._server: BaseWSGIServer = make_server(_HOST, port, app, threaded=True, request_handler=_KeepAlive)
        self._thread = threading.Thread(target=self._server.serve_forever, name="lithify-s3", daemon=True)
        self._thread.start()
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=_REGION,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=Config(s3={"addressing_style": "path"}),
        )

    def __enter__(self) -> "S3Server":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def endpoint_url(self) -> str:
        return f"http://{_HOST}:{self._server.server_port}"

    @property
    def options(self) -> dict[str, Any]:
        client = {"endpoint_url": self.endpoint_url, "region_name": _REGION}
        return {"key": "test", "secret": "test", "client_kwargs": client}

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": _REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
        }

    def create_bucket(self, name: str | None = None) -> str:
        """A new bucket, under a name of its own where none is given."""
        bucket = name or f"lithify-{new_id()}"
        self._client.create_bucket(Bucket=bucket)
        return bucket

    def delete_bucket(self, name: str) -> None:
        """Delete the bucket and all that is in it, old versions and unfinished uploads too."""
        for page in self._client.get_paginator("list_multipart_uploads").paginate(Bucket=name):
            for upload in page.get("Uploads", ()):
                self._client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        for page in self._client.get_paginator("list_object_versions").paginate(Bucket=name):
            entries = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            found = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            for first in range(0, len(found), DELETE_KEYS_MAX):
                self._client.delete_objects(Bucket=name, Delete={"Objects": found[first : first + DELETE_KEYS_MAX]})
        self._client.delete_bucket(Bucket=name)

    def url(self, path: str) -> str:
        """The warehouse URL of 'bucket/prefix'."""
        return f"s3://{path}"

    def stop(self) -> None:
        self._client.close()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _OneAtATime:
    """The lock: a request that writes is checked and stored before the next one is read."""

    def __init__(self, app: Any, observe: Callable[[str, str], object] | None) -> None:
        self._app = app
        self._observe = observe
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        with self._lock:
            if self._observe is not None:
                self._observe(environ["REQUEST_METHOD"], environ["QUERY_STRING"])
            reply: Any = self._app(environ, start_response)
            try:
                return list(reply)
            finally:
                reply.close()


class _KeepAlive(MotoRequestHandler):
    """HTTP/1.1 with connections kept open; werkzeug closes each, after waiting 10 ms for stray bytes."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def handle_expect_100(self) -> bool:
        self.send_response_only(100)
        self.end_headers()
        return True

    def run_wsgi(self) -> None:
        environ: dict[str, Any] = self.make_environ()
        body = environ["wsgi.input"]
        if environ.get("wsgi.input_terminated"):
            content = body.read()  # chunked
        else:
            content = body.read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["CONTENT_LENGTH"] = str(len(content))
        environ["wsgi.input"] = BytesIO(content)
        started: list[Any] = []
        pieces: list[bytes] = []

        def start_response(status: str, headers: list[tuple[str, str]], _: Any = None) -> Callable[[bytes], object]:
            started[:] = [status, headers]
            return pieces.append

        pieces.extend(self.server.app(environ, start_response))
        self._answer(started[0], started[1], b"".join(pieces))

    def _answer(self, status: str, headers: Sequence[tuple[str, str]], content: bytes) -> None:
        code, _, reason = status.partition(" ")
        self.send_response(int(code), reason)
        for name, value in headers:
            if name.lower() != "connection":
                self.send_header(name, value)
        self.send_header("x-amz-request-id", new_id())  # as S3 does; moto has another name for it
        if self.command != "HEAD" and not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """A line per request helps nobody's test."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m lithify.testing.server", description="An atomic S3 on loopback.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--bucket", action="append", default=[], help="create this bucket; may be repeated")
    chosen = parser.parse_args(arguments)
    with S3Server(chosen.port) as server:
        for bucket in chosen.bucket:
            server.create_bucket(bucket)
        for name, value in server.env.items():
            sys.stdout.write(f"export {name}={value}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
