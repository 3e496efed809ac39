"""The first decoding of a kind may happen in several threads at once: nothing may be left to prepare by then.

msgspec prepares a struct's type when its first decoder is made, in Python code between which threads change; one that
meets a half prepared type ends the process (about one in ten, with eight threads that decode at once).
"""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from lithify.work.order import unseal
from lithify.manifest.codec import decode, encode
from lithify.manifest.jobs import CompactorState
from lithify.manifest.model import *

file = dict(format=FORMAT, id=1, nonce="n")
of_topic = dict(file, topic="t", topic_id="i")
of_partition = dict(of_topic, partition=0)
made = {
    "manifest": Manifest(**of_partition),
    "compactor": CompactorState(**of_partition),
    "boundary": Boundary(**of_partition),
    "topic": TopicFile(**of_topic, partitions=1, config={}, created_at_ms=0),
    "warehouse": WarehouseFile(**file, config={}),
}
name = sys.argv[1]
body = encode(made[name]) if name in made else b""
called = set()
sys.setprofile(lambda frame, event, _: called.add(frame.f_globals.get("__name__")))
decode(type(made[name]), body, "k", 1) if body else unseal('{"type":"cancelled"}')
sys.setprofile(None)
print(sorted(module for module in called if module and module.startswith("msgspec")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["manifest", "compactor", "boundary", "topic", "warehouse", "reply"])
def test_the_first_decoding_prepares_nothing(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
