"""Values of the model: what holds of all of them."""

from webhook.model.request import User


def test_they_are_equal_and_keys_by_their_fields() -> None:
    assert {User("a", ("b",)): "there"}[User("a", ("b",))] == "there"
    assert User("a") != User("b")


def test_that_nobody_changes_them_is_for_mypy_to_see() -> None:
    one = User("a")
    one.name = "b"  # type: ignore[misc]  # mypy fails where it has nothing to ignore
    assert one == User("b")


def test_they_have_no_field_that_is_not_theirs() -> None:
    assert not hasattr(User("a"), "__dict__")
