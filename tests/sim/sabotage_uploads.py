"""Sabotages of uploads apart from their commit: what protects them, what makes their commit one, and when they end."""

from tests.sim.sabotage_line import Sabotage

__all__ = ["OF_UPLOADS"]

EDITS = "manifest/uploads.py"

OF_UPLOADS = (
    Sabotage(
        "the sweep does not look at uploads",
        "P22",
        "gc/reachable.py",
        "upload = upload_of(segment_id, uploads)",
        "upload = upload_of(segment_id, uploads[:0])",
    ),
    Sabotage(
        "the sweep looks at uploads that were not appended alone",
        "P22",
        "manifest/uploads.py",
        "next((upload for upload in uploads if SegmentId.of_upload(segment_id, upload.name)), None)",
        "next((u for u in uploads if u.appended is None and SegmentId.of_upload(segment_id, u.name)), None)",
    ),
    Sabotage(
        "a repeated commit of an upload appends again",
        "P22",
        EDITS,
        "if mine is not None and mine.appended is not None:\n            return Already",
        "if mine is not None and mine.appended == 0:\n            return Already",
    ),
    Sabotage(
        "an upload leaves when it is committed",
        "P22",
        EDITS,
        "tuple(replace(upload, appended=done) if upload is mine else upload for upload in head.uploads)",
        "tuple(upload for upload in head.uploads if upload is not mine)",
    ),
    Sabotage(
        "an upload is found by its id alone",
        "P22",
        EDITS,
        "if upload.name == name), None)",
        "if upload.id == name[-16:]), None)",
    ),
    Sabotage(
        "an upload that is gone can be appended",
        "P22",
        EDITS,
        "self._gone(head) if mine is None else full(head, self.l0_segments_max)",
        "full(head, self.l0_segments_max)",
    ),
    Sabotage(
        "an upload that stands is begun again",
        "P22",
        EDITS,
        "if known is not None and (known.appended is not None or not ran_out(known, now_ms)):",
        "if known is not None and known.appended is not None:",
    ),
    Sabotage(
        "an upload that was appended is begun again",
        "P22",
        EDITS,
        "(known.appended is not None or not ran_out(known, now_ms))",
        "(not ran_out(known, now_ms))",
    ),
    Sabotage(
        "an upload has expired at once", "P22", EDITS, "return upload.expires_at_ms <= now_ms", "return now_ms > 0"
    ),
    Sabotage("an upload never expires", "P22", EDITS, "return upload.expires_at_ms <= now_ms", "return now_ms < 0"),
    Sabotage(
        "nobody lets go of an upload that expired",
        "P22",
        "gc/collect.py",
        "lapsed = any(ran_out(upload, now_ms) for upload in manifest.uploads)",
        "lapsed = False",
    ),
    Sabotage(
        "any number of uploads stands",
        "P22",
        EDITS,
        "            return Refused(\n                Unavailable(\n"
        '                    f"{head.topic}/{head.partition} has',
        "            _ = Refused(\n                Unavailable(\n"
        '                    f"{head.topic}/{head.partition} has',
    ),
    Sabotage(
        "at its bound an upload gives way that has not expired",
        "P22",
        EDITS,
        "others = still_stand(others, now_ms)",
        "others = others[1:]",
    ),
    Sabotage(
        "at its bound an upload gives way that was not appended",
        "P22",
        EDITS,
        "first = min(done, key=lambda each: each[:2], default=(0, 0, None))",
        "first = min([(0, 0, uploads[0])], key=lambda each: each[:2])",
    ),
    Sabotage(
        "at its bound the upload gives way that was appended last",
        "P22",
        EDITS,
        "first = min(done,",
        "first = max(done,",
    ),
    Sabotage(
        "an upload that was appended gives way although there is room",
        "P22",
        EDITS,
        "if len(others) >= UPLOADS_MAX:\n            others = _without_first_appended",
        "if len(others) >= 1:\n            others = _without_first_appended",
    ),
    Sabotage(
        "where one has expired one that was appended gives way, too",
        "P22",
        EDITS,
        "others = still_stand(others, now_ms)\n        if len(others) >= UPLOADS_MAX:",
        "others = still_stand(others, now_ms)\n        if others:",
    ),
    Sabotage(
        "an upload lasts as long as it likes",
        "P22",
        EDITS,
        "if not 0 < self.ttl_ms <= UPLOAD_TTL_MS_MAX:",
        "if not 0 < self.ttl_ms:",
    ),
    Sabotage(
        "one commit appends any number of segments",
        "P22",
        EDITS,
        "if not 0 < len(self.segments) <= UPLOADED_SEGMENTS_MAX:",
        "if not 0 < len(self.segments):",
    ),
    Sabotage(
        "an upload appends what is another's",
        "P22",
        EDITS,
        "        if strange:",
        "        if strange and not ids:",
    ),
    Sabotage(
        "an upload appends a segment twice",
        "P22",
        EDITS,
        "if len(set(ids)) < len(ids):",
        "if len(set(ids)) > len(ids):",
    ),
    Sabotage(
        "all segments of an upload have the same offsets",
        "P22",
        "manifest/appends.py",
        "        base = end\n",
        "        base = max(base, end - segment.rows)\n",
    ),
    Sabotage(
        "an upload says that it was appended elsewhere",
        "P22",
        EDITS,
        "return range(done.base_offset, done.base_offset + done.rows)",
        "return range(done.base_offset + 1, done.base_offset + 1 + done.rows)",
    ),
    Sabotage(
        "an upload ignores which version its application has",
        "P22",
        EDITS,
        "if self.transaction is None else earlier_version(head, self.transaction)",
        "if self.transaction is None or head else earlier_version(head, self.transaction)",
    ),
    Sabotage(
        "an upload does not say that its version was appended",
        "P22",
        EDITS,
        "if self.transaction is None:\n            return transactions",
        "if self.name:\n            return transactions",
    ),
    Sabotage(
        "an application is forgotten under an upload that may follow",
        "P22",
        "manifest/transactions.py",
        "return old and not _awaited(entry, place.head)",
        "return old",
    ),
    Sabotage(
        "a deleted topic keeps its uploads",
        "P22",
        "manifest/lifetime.py",
        ", checkpoints=(), uploads=())",
        ", checkpoints=())",
    ),
    Sabotage(
        "what became of an upload is told although it is gone",
        "P22",
        "log/append.py",
        "and owner is not None and upload is None:",
        "and owner is not None:",
    ),
    Sabotage(
        "a full index takes the floor back under an upload",
        "R3",
        "manifest/appends.py",
        "if len(head.time_index) + more <= TIME_INDEX_MAX:",
        "if len(head.time_index) + min(more, 1) <= TIME_INDEX_MAX:",
    ),
)
