"""What a producer is told: taken as it is given, or refused with the remedy."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lithify.log.batches import RECORD_OVERHEAD_BYTES, Batches
from lithify.log.intake import APPEND_BYTES_MAX
from lithify.log.producer_config import parse_producer_config
from lithify.log.record import Record
from lithify.manifest.config import validate
from lithify.store.errors import InvalidRequest

MIB = 1 << 20
NAMES = ["linger.ms", "linger_ms", "batch.size"]
VALUES = (
    st.integers(1, 9)
    | st.integers()
    | st.integers(0, 9).map(str)
    | st.text(max_size=5)
    | st.floats()
    | st.booleans()
    | st.none()
    | st.binary(max_size=2)
)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 0.9, 5.0, "0.9", "1_000", " 5", "٥", True, None, b"5"])
def test_a_number_is_whole_and_spelled_as_one(value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"linger\.ms must be a whole number"):
        parse_producer_config({"linger.ms": value})


@pytest.mark.parametrize("value", [-1, 2**63, "9" * 20])
def test_a_number_has_bounds(value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"linger\.ms must be a whole number between 0 and 9223372036854775807"):
        parse_producer_config({"linger.ms": value})


def test_a_name_comes_once_however_it_is_spelled() -> None:
    with pytest.raises(InvalidRequest, match=r"linger\.ms is given twice: leave one out"):
        parse_producer_config({"linger.ms": 5, "linger_ms": 5})


@given(st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9) | VALUES, max_size=3))
def test_any_configuration_is_taken_as_it_is_or_refused(config: dict[str, Any]) -> None:
    """Tried on log/producer_config.py, and caught: `int` in place of the check; no look whether a name was there."""
    try:
        parsed = parse_producer_config(config)
    except InvalidRequest:
        return
    assert len({name.replace("_", ".") for name in config}) == len(config)
    for name, value in config.items():
        assert type(value) in (int, str)
        assert getattr(parsed, name.replace(".", "_")) == int(value)


def test_the_largest_batch_is_one_append() -> None:
    """The last record of a batch goes beyond batch.size. Tried on log/producer_config.py, and caught: a batch.size up
    to what an append takes."""
    largest = 64 * MIB
    validate({"max.message.bytes": str(largest)})
    with pytest.raises(InvalidRequest):
        validate({"max.message.bytes": str(largest + 1)})
    size = next(mib for mib in range(1024, 0, -1) if is_taken(mib * MIB)) * MIB
    assert not is_taken(size + 1)
    batches = Batches(parse_producer_config({"batch.size": size}))
    record = Record(b"", b"")
    batch, _ = batches.add(0, record, size - RECORD_OVERHEAD_BYTES - 1, 0)
    assert batch.open
    last, _ = batches.add(0, record, largest, 0)
    assert last is batch
    assert not batch.open
    assert batch.bytes <= APPEND_BYTES_MAX + 2 * RECORD_OVERHEAD_BYTES


def is_taken(size: int) -> bool:
    try:
        parse_producer_config({"batch.size": size})
    except InvalidRequest:
        return False
    return True
