"""One shape of a failure: every error becomes a Fault, and a Fault the same error again."""

from collections.abc import Iterator

import msgspec
import pytest

from lithify.store.apart import Fault, attempt
from lithify.store.errors import Corrupt, ErrorKind, LithifyError, NotFound, Unavailable, error_class


def tree(root: type[LithifyError] = LithifyError) -> Iterator[type[LithifyError]]:
    yield root
    for each in root.__subclasses__():
        if each.__module__ == root.__module__:
            yield from tree(each)


def test_each_class_of_errors_has_a_kind_of_its_own_and_each_kind_a_class() -> None:
    classes = list(tree())
    assert [each.kind for each in classes if each is not LithifyError] == [
        each.__name__ for each in classes if each is not LithifyError
    ]
    assert {each.kind for each in classes} == set(ErrorKind)
    assert all(error_class(each.kind) is each for each in classes)


@pytest.mark.parametrize("kind", ErrorKind)
def test_a_fault_becomes_its_error_again(kind: ErrorKind) -> None:
    fault = Fault.of(error_class(kind)("users/3: what happened"))
    assert fault == Fault(kind, "users/3: what happened", retryable=error_class(kind).retryable)
    error = fault.error()
    assert (type(error), str(error)) == (error_class(kind), fault.message)


@pytest.mark.parametrize("error", [NotFound("it is missing", "a/b"), Corrupt("it is damaged", "a/b", "s")])
def test_a_fault_names_the_object(error: NotFound | Corrupt) -> None:
    fault = Fault.of(error)
    assert (fault.key, getattr(fault.error(), "key", None)) == ("a/b", "a/b")


def test_a_bug_is_told_by_its_type_and_place_and_not_in_its_own_words() -> None:
    def work() -> None:
        raise ValueError("k0=v0")

    fault = attempt(work)
    assert fault is not None
    assert fault.kind is ErrorKind.UNEXPECTED
    assert "ValueError at tests.store.test_apart:" in fault.message
    assert "v0" not in fault.message


def test_its_json_is_plain() -> None:
    told = msgspec.json.decode(msgspec.json.encode(Fault.of(Unavailable("no answer"))))
    plain = {"kind": "Unavailable", "message": "no answer", "key": "", "retryable": True}
    assert told == plain | {"segment": "", "token": "", "notes": []}


@pytest.mark.parametrize("kind", ErrorKind)
def test_a_fault_keeps_all_that_its_error_tells(kind: ErrorKind) -> None:
    """Token, key and segment are those of the classes that have them; a note is added where more has to be said."""
    error = error_class(kind)("users/3: what happened")
    for name in ("token", "key", "segment"):
        if hasattr(error, name):
            setattr(error, name, f"the {name}")
    error.add_note("what else did not happen")
    fault = Fault.of(error)
    again = fault.error()
    assert (type(again), str(again), again.__dict__) == (type(error), str(error), error.__dict__)
    assert Fault.of(again) == fault == msgspec.json.decode(msgspec.json.encode(fault), type=Fault)
    assert fault.text == "users/3: what happened; what else did not happen"
