"""The examples in the docstrings of public names are run, and print what they say."""

import doctest
import inspect

import pytest

import lithify
from lithify.store.driver import new_id

# Where a user starts: each has an example.
STARTS = (
    *("open", "Warehouse", "Topic", "Partition", "Record", "RetentionPolicy"),
    *("Snapshot", "TopicSnapshot", "Producer", "Consumer", "TopicConsumer", "ScanAndFollow"),
    *("Compactor", "Collector", "Admin"),
)


@pytest.mark.parametrize("name", STARTS)
def test_its_example_prints_what_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    face = getattr(lithify, name)
    opened = lithify.open
    # Each example has a warehouse of its own, which they all call by the same name.
    monkeypatch.setattr(lithify, "open", lambda url: opened(f"{url}-{new_id()}"))  # type: ignore[misc]
    source = inspect.getdoc(face)
    assert source is not None
    example = doctest.DocTestParser().get_doctest(source, {"lithify": lithify}, name, None, None)
    assert example.examples
    said: list[str] = []
    failed = doctest.DocTestRunner(verbose=False).run(example, out=said.append).failed
    assert failed == 0, "".join(said)
