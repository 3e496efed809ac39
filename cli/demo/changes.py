"""The demo's change stream: users who sign up, change and leave. The same seed gives the same stream."""

import string

import numpy as np
import pyarrow as pa

__all__ = ["Latest", "change_stream"]

_DIGITS = (string.digits + string.ascii_letters).encode()
_SCATTER = 0x9E37_79B9_7F4A_7C15  # odd, so no two users share an id (Knuth's multiplicative hashing)
_BEGIN_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
_STEP_MS = 250
_DELETED = 0.08  # of all changes
_SKEW = 2.0  # a few users change often, most rarely
_FIRST = ("Ada", "Bela", "Chidi", "Dana", "Emre", "Fatou", "Goran", "Hana", "Ines", "Jun", "Kofi", "Lena", "Mei", "Noa")
_LAST = ("Almeida", "Berg", "Castro", "Diallo", "Eriksen", "Fischer", "Gupta", "Haddad", "Ito", "Jovic", "Kim", "Lind")
_CITY = ("Accra", "Bergen", "Cusco", "Dakar", "Erfurt", "Fukuoka", "Graz", "Hanoi", "Izmir", "Jaipur", "Kyoto", "Lyon")
_PLAN = ("free", "team", "pro", "enterprise")


def change_stream(records: int, keys: int, commits: int, seed: int) -> list[pa.Table]:
    """`records` changes of at most `keys` users, in about `commits` tables of equal size, with columns key, value
    (null: the user left) and timestamp_ms."""
    dice = np.random.default_rng(seed)
    users = (keys * dice.random(records) ** _SKEW).astype(np.int64).tolist()
    left = (dice.random(records) < _DELETED).tolist()
    facts = dice.integers(0, 1 << 30, records).tolist()
    names = [_key(user) for user in range(keys)]
    values = [
        None if gone else _value(user, fact, index)
        for index, (user, gone, fact) in enumerate(zip(users, left, facts, strict=True))
    ]
    whole = pa.table(
        {
            "key": pa.array([names[user] for user in users], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp_ms": pa.array(range(_BEGIN_MS, _BEGIN_MS + records * _STEP_MS, _STEP_MS), pa.int64()),
        }
    )
    size = -(-records // commits)
    return [whole.slice(start, size) for start in range(0, records, size)]


def _key(user: int) -> bytes:
    """An id as services assign them, like usr_4fQ0aZx2Lk7: eleven base-62 digits, in no order."""
    number = (user + 1) * _SCATTER % (1 << 64)
    return b"usr_" + bytes(_DIGITS[number // len(_DIGITS) ** place % len(_DIGITS)] for place in range(11))


def _value(user: int, fact: int, index: int) -> bytes:
    """A user's row as a change-data-capture tool would send it; the name stays, the rest changes."""
    first, last = _FIRST[user % len(_FIRST)], _LAST[user // 7 % len(_LAST)]
    return (
        f'{{"id":{user},"name":"{first} {last}","email":"{first}.{last}.{user}@example.org",'
        f'"plan":"{_PLAN[fact % len(_PLAN)]}","city":"{_CITY[fact // 4 % len(_CITY)]}",'
        f'"logins":{fact % 5_000},"session":"{(fact + 1) * _SCATTER % (1 << 64):016x}","change":{index}}}'
    ).encode()


class Latest:
    """What a scan must show, computed in plain Python: key → (offset, value) of every user who has not left."""

    def __init__(self) -> None:
        self.rows: dict[bytes, tuple[int, bytes]] = {}
        self.gone: set[bytes] = set()

    def copy(self) -> "Latest":
        other = Latest()
        other.rows, other.gone = dict(self.rows), set(self.gone)
        return other

    def apply(self, table: pa.Table, offsets: range) -> None:
        """Apply `table`, which was appended at `offsets`."""
        keys, values = table["key"].to_pylist(), table["value"].to_pylist()
        for key, value, offset in zip(keys, values, offsets, strict=True):
            if value is None:
                self.rows.pop(key, None)
                self.gone.add(key)
            else:
                self.rows[key] = (offset, value)
                self.gone.discard(key)
