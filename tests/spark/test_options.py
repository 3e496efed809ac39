"""What `option(...)` may say: each refusal is one message that says what to do."""

import json

import pytest
from pyspark_lithify.options import COLUMNS, columns_of, read_options, stream_options, write_options

from lithify.store.errors import InvalidRequest

GIVEN = {"topic": "users", "path": "s3://bucket/prefix"}


def test_what_is_read_by_default() -> None:
    found = read_options(GIVEN)
    assert (found.view, found.partitions, found.columns, found.pin) == ("latest", None, COLUMNS, True)
    assert (found.offset_from, found.offset_to, found.key_from, found.key_to) == (0, None, None, None)
    assert (found.common.warehouse, found.common.topic) == ("s3://bucket/prefix", "users")


@pytest.mark.parametrize("name", ["offset_from", "offsetFrom", "OFFSETFROM", "offsetfrom", "Offset_From"])
def test_names_are_compared_without_case_and_underscores(name: str) -> None:
    assert read_options(GIVEN | {name: "7"}).offset_from == 7


def test_every_option_of_a_read() -> None:
    found = read_options(
        GIVEN
        | {
            "view": "LATEST",
            "partition": "0, 2",
            "offset_to": "9",
            "key_from": "a",
            "key_to": "b",
            "tombstones": "true",
        }
        | {"tombstones": "true", "columns": "offset,key", "tasks": "3", "pin": "false", "manifest": "4,5"}
    )
    assert (found.partitions, found.offset_to, found.key_from, found.key_to) == ((0, 2), 9, b"a", b"b")
    assert (found.tombstones, found.columns, found.tasks, found.pin) == (True, ("offset", "key"), 3, False)
    assert (found.manifests, found.checkpoint) == ((4, 5), None)
    assert read_options(GIVEN | {"checkpoint": "k"}).checkpoint == "k"
    binary = read_options(GIVEN | {"key_from": "AAE=", "key_format": "base64"})
    assert binary.key_from == b"\0\1"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, "option topic is empty"),
        ({"offset_form": "1"}, "did you mean offset_from"),
        ({"quite_other": "1"}, "knows no option 'quite_other'; it takes topic"),
        ({"view": "newest"}, "latest or log, not 'newest'"),
        ({"partition": "x"}, "numbers from 0"),
        ({"partition": "1,1"}, "names a partition twice"),
        ({"offset_from": "-1"}, "integer from 0"),
        ({"offset_from": "١"}, "integer from 0"),
        ({"offset_to": "9" * 30}, "integer from 0"),
        ({"offset_from": "5", "offset_to": "4"}, "offset_from lies after offset_to"),
        ({"key_from": "b", "key_to": "a"}, "key_from lies after key_to"),
        ({"key_format": "hex"}, "key_format must be utf8 or base64, not 'hex'"),
        ({"paths": '["s3://a", "s3://b"]'}, "read takes one warehouse"),
        ({"key_from": "%%", "key_format": "base64"}, "key_from is not base64"),
        ({"key_format": "hex", "key_from": "00"}, "utf8 or base64"),
        ({"checkpoint": "k", "manifest": "3"}, "give one of them"),
        ({"partition": "0,1", "manifest": "3"}, "one each"),
        ({"tombstones": "yes"}, "true or false"),
        ({"view": "log", "tombstones": "true"}, "the log always has its tombstones"),
        ({"columns": "key,val"}, "some of key, value"),
        ({"columns": "key,key"}, "each once"),
        ({"tasks": "0"}, "integer from 1"),
        ({"storage_options": "endpoint=x"}, "JSON object"),
        ({"offset_from": "3", "offsetFrom": "5"}, "option offset_from is given twice"),
        ({"TOPIC": "t"}, "option topic is given twice"),
        ({"starting_offsets": "latest"}, "knows no option 'starting_offsets'"),
    ],
)
def test_what_a_read_refuses(options: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_options(GIVEN | options)
    assert said in str(refused.value)


@pytest.mark.parametrize("missing", ["topic", "path"])
def test_a_topic_and_a_warehouse_are_needed(missing: str) -> None:
    with pytest.raises(InvalidRequest, match="no topic given" if missing == "topic" else "no warehouse given"):
        read_options({name: value for name, value in GIVEN.items() if name != missing})


@pytest.mark.parametrize(
    "options",
    [
        {"secret": "hush"},
        {"client_kwargs": {"aws_secret_access_key": "hush"}},
        {"TOKEN": "hush"},
        {"a": [{"Key": "hush"}]},
    ],
)
def test_secrets_are_refused_and_not_quoted(options: object) -> None:
    with pytest.raises(InvalidRequest, match="event log") as refused:
        read_options(GIVEN | {"storage_options": json.dumps(options)})
    assert "hush" not in str(refused.value)


def test_a_key_of_kms_is_named_by_its_id() -> None:
    given = {"s3_additional_kwargs": {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "k", "BucketKeyEnabled": True}}
    assert read_options(GIVEN | {"storage_options": json.dumps(given)}).common.storage_options == given
    for name in ("SSECustomerKey", "SSEKMSKeyIdSecret"):
        with pytest.raises(InvalidRequest, match="event log"):
            read_options(GIVEN | {"storage_options": json.dumps({name: "hush"})})


def test_no_error_quotes_a_key() -> None:
    for options in ({"key_from": "ada", "key_to": "Ada"}, {"key_from": "ada!", "key_format": "base64"}):
        with pytest.raises(InvalidRequest) as refused:
            read_options(GIVEN | options)
        assert "ada" not in str(refused.value)


def test_what_a_stream_reads() -> None:
    assert stream_options(GIVEN).starting == "earliest"
    assert stream_options(GIVEN | {"startingoffsets": '{"10": 3, "2": 4}'}).starting == {2: 4, 10: 3}
    found = stream_options(GIVEN | {"maxOffsetsPerTrigger": "5", "failOnDataLoss": "false", "checkpointLocation": "x"})
    assert (found.rows_per_trigger, found.fail_on_data_loss) == (5, False)
    for wrong in ("first", "[]", "{}", '{"a": 1}', '{"0": -1}', '{"0": true}', '{"0": 1.5}'):
        with pytest.raises(InvalidRequest, match="startingOffsets"):
            stream_options(GIVEN | {"starting_offsets": wrong})
    with pytest.raises(InvalidRequest, match="view=log"):
        stream_options(GIVEN | {"view": "latest"})


def test_what_is_written() -> None:
    assert write_options(GIVEN).txn is None
    assert write_options(GIVEN | {"txnAppId": "job", "txnVersion": "4"}).txn == ("job", 4)
    for half in ({"txnAppId": "job"}, {"txnVersion": "4"}):
        with pytest.raises(InvalidRequest, match="go together"):
            write_options(GIVEN | half)
    for name in ("a\nb", "x" * 239):
        with pytest.raises(InvalidRequest, match="txnAppId must be 1 to 238 printable characters"):
            write_options(GIVEN | {"txnAppId": name, "txnVersion": "4"})
    with pytest.raises(InvalidRequest, match="upload_ttl_ms must be an integer from 1 to 604800000"):
        write_options(GIVEN | {"uploadTtlMs": "604800001"})
    with pytest.raises(InvalidRequest, match="writeStream knows no option 'txnAppId'"):
        write_options(GIVEN | {"txnAppId": "job", "txnVersion": "4"}, stream=True)


def test_the_columns_of_either_are_known_before_the_rest() -> None:
    assert columns_of(GIVEN | {"columns": "value", "starting_offsets": "latest"}) == ("value",)
    assert columns_of({}) == COLUMNS
