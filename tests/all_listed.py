"""A plugin under which all runs are in run lists of two segments, as in a partition with very many (docs/rfcs/0027):

python -m pytest -p tests.all_listed tests/e2e
"""

from lithify.manifest import list_layout

list_layout.INLINE_MAX, list_layout.LIST_MAX = 0, 2
