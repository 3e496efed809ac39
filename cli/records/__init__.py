"""Records from and to files, objects and pipes: sources, formats, exports, and imports that resume.

- Sources: `sources` expands patterns, `bulk` opens a URL and cuts what it holds, `batches` makes batches of any format,
  `arrivals` is for pipes. Formats: `formats` by name, `lines` (JSON), `csv_rows`, `roles` (columns of ordinary tables).
- An import (docs/rfcs/0011): `identity` names its source, `imports` appends what is missing, `import_entries` reads
  what partitions remember, `unfinished` finds earlier imports of the path, `progress` says how to continue.
- Targets: `sinks`. Folders (docs/rfcs/0029): `folder_imports`, `folder_exports`; `parts` runs either, here or on Spark.
- `explained` turns errors of other libraries into lithify's.
"""
