"""The list of cases is true."""

from tests.field.listing import PAGE, page


def test_every_case_is_listed_with_its_test_and_what_holds() -> None:
    """`field_cases.md` is what the tests say; `make docs` writes it."""
    assert PAGE.read_text() == page()
