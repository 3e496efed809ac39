"""`lithify transaction`: applications that number their appends are seen, and forgotten by hand."""

import lithify as face
from tests.cli.conftest import Lithify


def test_they_are_listed_and_forgotten(on_files: Lithify) -> None:
    on_files.ok("topic", "create", "users", "--partitions", "2")
    topic = face.open(on_files.url).topic("users")
    for number in (0, 1):
        topic.partition(number).append([face.Record(None, b"v")], txn=("nightly", 7))
    topic.partition(1).append([face.Record(None, b"v")] * 2, txn=("stream", 1))
    found = on_files.json("transaction", "list", "users")
    told = [(each["partition"], each["transaction"]["application"], each["transaction"]["version"]) for each in found]
    assert told == [(0, "nightly", 7), (1, "nightly", 7), (1, "stream", 1)]
    assert "nightly" in on_files.ok("transaction", "list", "users", "--partition", "0")
    assert on_files.json("transaction", "forget", "users", "nightly", "--partition", "1")["partitions"] == [1]
    assert on_files.json("transaction", "forget", "users", "nightly")["partitions"] == [0]
    on_files.refused("transaction", "forget", "users", "nightly", code=3, saying="remembers no application 'nightly'")
    assert [each["transaction"]["rows"] for each in on_files.json("transaction", "list", "users")] == [2]
