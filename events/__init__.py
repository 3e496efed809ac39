"""What happens to a partition, as events with types (docs/rfcs/0015): for logs, progress bars, metrics and streams.

Promises: the changes of a numbered file are a pure function of that file and the one before it, so all who follow the
files see the same changes, with the same ids. A sink that fails or is slow disturbs no work.

`types.py` has the changes of numbered files, `notices.py` what only a process knows, `changes.py` derives changes.
`event_log.py` writes events as log lines, `troubles.py` reports a lasting failure once. For streams (docs/rfcs/0018):
`stream.py` has cursors and the ring of the last events, `chain.py` follows a chain and reads it back, `finding.py`
knows which chains there are, `watched.py` which of them are looked at, `feed.py` serves many clients.
"""

if __name__ != "lithify.events":
    raise ImportError("import lithify.events, not events: a second copy of its classes would not match the first")
