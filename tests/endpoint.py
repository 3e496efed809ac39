"""An S3 endpoint of somebody's own, against which the contract of stores and the chaos suite run as well.

LITHIFY_TEST_S3_ENDPOINT names it; without it no test is made of it. Every test takes a bucket of its own.
"""

import os
from typing import Any

import boto3
from botocore.config import Config

from lithify.store.driver import new_id

VARIABLE = "LITHIFY_TEST_S3_ENDPOINT"
PRESENT = VARIABLE in os.environ


class Endpoint:
    """What tests need of an S3 server, as `lithify.testing.server.S3Server` has it."""

    def __init__(self) -> None:
        self.endpoint_url = os.environ[VARIABLE]
        self._key = os.environ.get("LITHIFY_TEST_S3_KEY", "test")
        self._secret = os.environ.get("LITHIFY_TEST_S3_SECRET", "test")
        self._region = os.environ.get("LITHIFY_TEST_S3_REGION", "us-east-1")
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=self._region,
            aws_access_key_id=self._key,
            aws_secret_access_key=self._secret,
            config=Config(s3={"addressing_style": "path"}),
        )

    @property
    def options(self) -> dict[str, Any]:
        client = {"endpoint_url": self.endpoint_url, "region_name": self._region}
        return {"key": self._key, "secret": self._secret, "client_kwargs": client}

    def url(self, path: str) -> str:
        return f"s3://{path}"

    def create_bucket(self, name: str | None = None) -> str:
        name = name or f"lithify-test-{new_id()}"
        self.client.create_bucket(Bucket=name)
        return name

    def delete_bucket(self, name: str) -> None:
        for page in self.client.get_paginator("list_object_versions").paginate(Bucket=name):
            for entry in (*page.get("Versions", ()), *page.get("DeleteMarkers", ())):
                self.client.delete_object(Bucket=name, Key=entry["Key"], VersionId=entry["VersionId"])
        for page in self.client.get_paginator("list_multipart_uploads").paginate(Bucket=name):
            for upload in page.get("Uploads", ()):
                self.client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        self.client.delete_bucket(Bucket=name)

    def close(self) -> None:
        self.client.close()
