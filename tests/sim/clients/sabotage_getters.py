"""Those of gets that may answer from a head of a moment ago."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["SABOTAGED_GETTERS"]

SABOTAGED_GETTERS = (
    Sabotage(
        "a known head never grows old",
        "how old a get may be",
        "log/recent.py",
        "            and young(self._asked_ms, now_ms, staleness_ms)\n",
        "            and staleness_ms\n",
    ),
    Sabotage(
        "a head is as old as the reply",
        "how old a get may be",
        "log/recent.py",
        "        self._asked_ms = now_ms\n",
        "        self._asked_ms = await Now()\n",
    ),
    Sabotage(
        "what was collected beneath a get is told to its caller",
        "how old a get may be",
        "log/point_reads.py",
        "            except SnapshotExpired:\n                # SUBTLE! A collection",
        "            except NotImplementedError:\n                # SUBTLE! A collection",
    ),
    Sabotage(
        "what this handle appended is not looked for",
        "how old a get may be",
        "log/recent.py",
        "            and self._files.manifest.seen.number <= known.id\n"
        "            and self._appended_to <= known.next_offset\n",
        "",
    ),
)
