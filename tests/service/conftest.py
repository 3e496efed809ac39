"""A warehouse on a real S3 server, and its daemons as processes of their own."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

import lithify
from lithify.testing.front import Front
from tests.cli.conftest import Lithify
from tests.endpoint import Endpoint
from tests.rgw import Rgw
from tests.service.daemon import Daemon


class Place(NamedTuple):
    """A warehouse in a bucket of its own."""

    owner: Endpoint
    bucket: str
    url: str

    def open(self) -> lithify.Warehouse:
        return lithify.open(self.url, storage_options=self.owner.options)

    def words(self, through: Front | None = None, user: Endpoint | None = None) -> str:
        """LITHIFY_STORAGE_OPTION, of the owner unless another `user` is given."""
        options = (user or self.owner).options
        endpoint_url = self.owner.endpoint_url if through is None else through.endpoint_url
        return f"key={options['key']} secret={options['secret']} client_kwargs.endpoint_url={endpoint_url}"

    def daemon(self, *words: str, through: Front | None = None, **env: str) -> Daemon:
        return Daemon(self.url, *words, LITHIFY_STORAGE_OPTION=self.words(through), **env)

    @property
    def command(self) -> Lithify:
        return self.command_of(self.owner)

    def command_of(self, user: Endpoint) -> Lithify:
        words = self.words(user=user).split()
        return Lithify(self.url, *(word for each in words for word in ("--storage-option", each)))


@pytest.fixture(scope="session")
def owner(rgw: Rgw) -> Iterator[Endpoint]:
    user = rgw.user("owner")
    yield user
    user.close()


@pytest.fixture
def place(owner: Endpoint) -> Place:
    bucket = owner.create_bucket()
    return Place(owner, bucket, f"s3://{bucket}/warehouse")
