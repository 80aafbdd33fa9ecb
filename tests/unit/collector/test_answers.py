"""What each return code asks for."""

import pytest

from collector.answers import Consequence, consequence_of

TABLE = [
    (0, Consequence.DATA), (1, Consequence.INITIALISE), (2, Consequence.ENUMERATE), (3, Consequence.CAPABILITY_OFF),
    (4, Consequence.DATA), (6, Consequence.DATA), (9, Consequence.INITIALISE), (10, Consequence.DATA),
    (12, Consequence.END), (13, Consequence.CAPABILITY_OFF), (15, Consequence.ENUMERATE), (16, Consequence.ENUMERATE),
    (17, Consequence.DATA), (18, Consequence.END), (19, Consequence.DATA), (23, Consequence.DATA),
    (25, Consequence.DATA), (27, Consequence.DATA), (29, Consequence.DATA), (999, Consequence.DATA),
    (77777, Consequence.DATA),
]  # fmt: skip


@pytest.mark.parametrize(("code", "consequence"), TABLE)
def test_code_has_its_consequence(code: int, consequence: Consequence) -> None:
    """Each return code asks for exactly what the table says; one that nobody knows is data."""
    expected = Consequence.DATA if consequence is Consequence.CAPABILITY_OFF else consequence
    assert consequence_of([0, code]) is expected


def test_gravest_consequence_wins() -> None:
    """Among many codes the one that asks for most decides."""
    assert consequence_of([0, 2, 1, 6]) is Consequence.INITIALISE
    assert consequence_of([0, 2, 18, 1]) is Consequence.END
