"""What an error means for the attempt that it ended: one table, whoever met it."""

from typing import get_args

import pytest

from lithify.manifest.categories import Category, MetBy
from lithify.store.errors import (
    AccessDenied,
    Corrupt,
    ErrorKind,
    InvalidRequest,
    NotFound,
    Unavailable,
    error_class,
)

TABLE: list[tuple[Exception, Category, Category]] = [  # error; met by a task; by the compactor itself
    (Unavailable("x"), Category.UNAVAILABLE, Category.UNAVAILABLE),
    (AccessDenied("x"), Category.STORE_DENIED, Category.STORE_DENIED),
    (Corrupt("x"), Category.CORRUPT, Category.UNAVAILABLE),
    (NotFound("x"), Category.MISSING, Category.UNAVAILABLE),
    (InvalidRequest("x"), Category.INVALID, Category.UNAVAILABLE),
    (MemoryError("x"), Category.MEMORY, Category.UNAVAILABLE),
    (KeyError("x"), Category.ENGINE, Category.UNAVAILABLE),
]


@pytest.mark.parametrize(("error", "of_task", "of_compactor"), TABLE, ids=lambda each: type(each).__name__)
def test_an_error_means_one_category_to_each(error: Exception, of_task: Category, of_compactor: Category) -> None:
    assert Category.of(error) == Category.of(error, "task") == of_task
    assert Category.of(error, "compactor") == of_compactor
    assert Category.of(error, "engine") == Category.ENGINE_DOWN


@pytest.mark.parametrize("kind", sorted(set(ErrorKind) - {ErrorKind.UNEXPECTED}))
def test_no_error_of_the_compactors_own_requests_blames_the_job(kind: ErrorKind) -> None:
    error = error_class(kind)("x")
    blames = {met_by: Category.of(error, met_by).blames_job for met_by in get_args(MetBy)}
    assert blames.pop("task") is not isinstance(error, Unavailable)
    assert blames == {"engine": False, "compactor": False}
