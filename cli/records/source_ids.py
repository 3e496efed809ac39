"""What a person may call a source."""

import re

from lithify.cli.records.readings import parse_application
from lithify.store.errors import InvalidRequest

__all__ = ["SOURCE_ID_CHARACTERS_MAX", "check_source_id"]

SOURCE_ID_CHARACTERS_MAX = 200
_LIKE_A_COUNT = re.compile(r".* over [0-9]+")


def check_source_id(given: str) -> str:
    if not 1 <= len(given) <= SOURCE_ID_CHARACTERS_MAX or not given.isprintable():
        raise InvalidRequest(f"--source-id must be a string of 1 to {SOURCE_ID_CHARACTERS_MAX} printable characters")
    if _LIKE_A_COUNT.fullmatch(given):
        # With --partition, 'x over 4' would be taken for the import of 'x' into 4 partitions.
        raise InvalidRequest(
            "--source-id must not end in ' over' and a number: lithify adds that suffix to record the number of "
            "partitions"
        )
    parsed = parse_application(f"import {given}")
    if parsed is not None and parsed.source_id != given:
        raise InvalidRequest(
            f"--source-id must not end in ' by {parsed.reading}': lithify adds such a suffix to record how rows are "
            "read. Give what precedes it, and the flags that it stands for"
        )
    return given
