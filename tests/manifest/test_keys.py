"""Which keys are a segment's: what is deleted or aborted by its name alone must be ours."""

from hypothesis import given
from hypothesis import strategies as st

from lithify.manifest.keys import PartitionKeys, SegmentId, is_segment_key, is_topic_name

NONCES = st.text("0123456789abcdef", min_size=16, max_size=16)
NUMBERS = st.integers(0, 10**15)
NAMES = st.builds(SegmentId.for_append, NUMBERS, NONCES) | st.builds(
    SegmentId.for_output, st.builds(SegmentId.for_job, NUMBERS, NONCES), NUMBERS, NUMBERS, NONCES
)
TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,20}", fullmatch=True).filter(is_topic_name)
KEYS = st.builds(
    lambda topic, topic_id, partition, name: PartitionKeys(topic, topic_id, partition).segment(name),
    *(TOPICS, NONCES, st.integers(0, 10**6), NAMES),
)


@given(KEYS)
def test_every_segment_of_ours_is_known_by_its_key(key: str) -> None:
    assert is_segment_key(key)


@given(KEYS, st.data())
def test_a_key_that_is_nearly_one_of_ours_is_known_only_if_we_could_have_made_it(key: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(key)))
    taken = data.draw(st.integers(0, 2))
    changed = key[:at] + data.draw(st.text("/.-0aF@~\n ", max_size=3)) + key[at + taken :]
    if is_segment_key(changed):
        topic, topic_id, partition, _, name = changed.split("/")
        keys = PartitionKeys(topic, topic_id, int(partition))
        assert is_topic_name(topic)
        assert keys.segment(name.removesuffix(".parquet")) == changed
        assert keys.segment_id(changed) is not None


def test_what_others_put_beside_our_segments_is_not_ours() -> None:
    key = PartitionKeys("users", "0123456789abcdef", 0).segment(SegmentId.for_append(1, "0123456789abcdef"))
    others = (f"other/{key}", f"{key}.part", key.upper(), key.replace("segments", "exports"), f".lithify-x/{key}", "")
    assert not [each for each in others if is_segment_key(each)]
