"""One cluster for all tests here: they leave it as they found it, and run in one process."""

from collections.abc import Iterator

import pytest

from tests.cluster.standalone import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Master and two Workers of one core."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made
