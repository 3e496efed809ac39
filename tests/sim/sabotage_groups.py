"""Sabotages of commits that hold the appends of several callers (docs/rfcs/0024)."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_GROUPS"]

EDIT = "manifest/appends.py"
TOLD = "log/append.py"

OF_GROUPS = (
    Sabotage(
        "each member is placed as if it were alone",
        "P6",
        EDIT,
        "verdict = member.placed(following, number, now_ms)",
        "verdict = member.placed(head, number, now_ms)",
    ),
    Sabotage(
        "a group is told of its members in another order",
        "P6",
        EDIT,
        "answers.append(verdict if isinstance(verdict, Refused) else verdict.result)",
        "answers.insert(0, verdict if isinstance(verdict, Refused) else verdict.result)",
    ),
    Sabotage(
        "an append counts the L0 segments before its group",
        "P6",
        EDIT,
        "no_room = full(head, self.l0_segments_max)",
        "no_room = full(head, self.l0_segments_max + (bool(head.l0) and head.l0[-1].added_at == number))",
        focus="groups",
    ),
    Sabotage(
        "a member's segment goes into no bucket of the time index",
        "R3",
        EDIT,
        "    for segment in added:\n        index = time_index.grow(index, segment)\n",
        "    for segment in added[:1]:\n        index = time_index.grow(index, segment)\n",
    ),
    Sabotage(
        "a full index takes the floor back under a group",
        "R3",
        EDIT,
        "_room_in_index(head, len(added), now_ms)",
        "_room_in_index(head, min(len(added), 1), now_ms)",
        focus="full index",
    ),
    Sabotage(
        "a member below the orphan floor is taken with its group",
        "P7",
        EDIT,
        "if SegmentId.manifest_id(self.segment.id) < head.orphan_floor:",
        "if SegmentId.manifest_id(self.segment.id) < head.orphan_floor and head.l0 and head.l0[-1].added_at < number:",
    ),
    Sabotage(
        "all of a group are given the token of its first",
        "P4",
        TOLD,
        "else unknown_to(files, member, error)\n",
        "else unknown_to(files, members[0], error)\n",
    ),
    Sabotage(
        "of an unknown group nothing was appended",
        "P4",
        TOLD,
        "            answer if isinstance(answer, range) else unknown_to(files, member, error)\n",
        "            answer if isinstance(answer, range) else Unavailable(str(member and error))\n",
    ),
)
