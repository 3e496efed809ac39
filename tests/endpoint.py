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

    def __init__(self, endpoint_url: str, key: str = "test", secret: str = "test", region: str = "us-east-1") -> None:
        self.endpoint_url = endpoint_url
        self._key, self._secret, self._region = key, secret, region
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=endpoint_url,
            region_name=region,
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            config=Config(s3={"addressing_style": "path"}),
        )

    @classmethod
    def named(cls) -> "Endpoint":
        """The one of the environment."""
        names = {"key": "LITHIFY_TEST_S3_KEY", "secret": "LITHIFY_TEST_S3_SECRET", "region": "LITHIFY_TEST_S3_REGION"}
        given = {option: os.environ[name] for option, name in names.items() if name in os.environ}
        return cls(os.environ[VARIABLE], **given)

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
            entries = (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
            found = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in entries]
            if found:
                self.client.delete_objects(Bucket=name, Delete={"Objects": found})
        for page in self.client.get_paginator("list_multipart_uploads").paginate(Bucket=name):
            for upload in page.get("Uploads", ()):
                self.client.abort_multipart_upload(Bucket=name, Key=upload["Key"], UploadId=upload["UploadId"])
        self.client.delete_bucket(Bucket=name)

    def close(self) -> None:
        self.client.close()
