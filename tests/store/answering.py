"""A store whose every request gets the same answer, and pages that are not S3's."""

from functools import cache
from types import SimpleNamespace
from typing import Any

from botocore.awsrequest import AWSResponse

from lithify.store.s3 import S3Store

DATE = "Sat, 21 Nov 2026 10:00:00 GMT"
PAGE = "<!DOCTYPE html><html><head><title>404</title></head><body>no backend</body></html>"
PAGES = [
    "",
    PAGE,
    "<html><br>not closed",
    "no healthy upstream",
    '{"message": "no Route matched with those values"}',
    '<?xml version="1.0" encoding="gb2312"?><html><body/></html>',
    '<?xml version="1.0" encoding="no such"?><html><body/></html>',
    "<a>" * 3_000 + "</a>" * 3_000,
    "<html><Error><Code>NoSuchKey</Code></Error></html>",
    "<html><Code>NoSuchKey</Code></html>",
    "<Error><Code>NoSuchKey</Code><Message>The speci",
    "<Error/>",
    "<Error><Code/></Error>",
    "<Error><Code><x/></Code></Error>",
    "<Error><Code>NoSuchKey</Code><Code>NoSuchKey</Code></Error>",
    "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
    "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    "<ListBucketResult><Contents><Key>a</Key><Size>x</Size></Contents></ListBucketResult>",
]


class Answering:
    """A store whose every request gets the same answer, which can be changed; `asked` holds the methods so far."""

    def __init__(self) -> None:
        client = {"endpoint_url": "http://127.0.0.1:1", "region_name": "us-east-1"}
        config = {"retries": {"total_max_attempts": 1}}
        options = {"key": "k", "secret": "s", "client_kwargs": client, "config_kwargs": config}
        self.store = S3Store("bucket", "p", options, pause=lambda _: None)
        self.asked: list[str] = []
        self.status, self.body, self.headers = 404, "", dict[str, str]()
        for each in (self.store.conditional_client(), self.store.bulk_client()):
            each.meta.events.register("before-send.s3", self._answer)

    def _answer(self, request: Any, **_: Any) -> AWSResponse:
        self.asked.append(request.method)
        raw = SimpleNamespace(
            read=lambda *_: self.body.encode(), stream=lambda *_, **__: [self.body.encode()], close=lambda: None
        )
        return AWSResponse(request.url, self.status, {"content-type": "text/html", **self.headers}, raw)


_answering = cache(Answering)  # to make a client takes 0.1 s


def answered(status: int, body: str, headers: dict[str, str] | None = None) -> tuple[S3Store, list[str]]:
    """A store whose every request gets this answer, and the methods of what it asked; of the last call only."""
    one = _answering()
    one.status, one.body, one.headers = status, body, headers or {}
    one.asked.clear()
    return one.store, one.asked
