"""What only a real server shows; made of the endpoint that the environment names (tests/endpoint.py), else of nothing.

The contract (test_contract.py) runs against it, too: its parameter is `endpoint`.
"""

import pytest

from lithify.log.warehouse import Warehouse
from lithify.store.driver import Driver
from lithify.store.errors import InvalidRequest
from lithify.store.metered import Metered
from lithify.store.probe import probe
from lithify.store.s3 import S3Store
from tests.endpoint import PRESENT, Endpoint

if PRESENT:

    def test_the_endpoint_passes_the_probe(endpoint_store: S3Store) -> None:
        report = probe(endpoint_store)
        assert [check.name for check in report.checks if not check.ok] == []

    def test_a_versioned_bucket_is_refused_where_conditions_are_ignored_and_else_a_warning(
        endpoint_store: S3Store,
    ) -> None:
        """Ceph ignores `If-None-Match` on a versioned bucket; S3 honours it there."""
        bucket = endpoint_store.url.split("/")[2]
        place = Endpoint.named()
        place.client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        place.close()
        report = probe(endpoint_store)
        checks = {check.name: check for check in report.checks}
        conditional = checks["create if absent"].ok and checks["simultaneous creates"].ok
        assert not checks["versioning"].ok
        assert checks["versioning"].severity == ("warning" if conditional else "failure")
        assert report.ok == conditional
        warehouse = Warehouse(Driver(Metered(endpoint_store)))
        if conditional:
            warehouse.create_topic("users")
        else:
            with pytest.raises(InvalidRequest, match=r"not safe for a log.*without versioning"):
                warehouse.create_topic("users")
            assert warehouse.topics() == []
