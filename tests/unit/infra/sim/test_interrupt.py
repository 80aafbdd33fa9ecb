import os
import signal
from collections.abc import Iterator

import pytest

from infra.sim.interrupt import Interrupt

BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _dispositions() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in BOTH}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", BOTH)
def test_signal_that_was_ignored_at_the_start_interrupts(number: signal.Signals) -> None:
    """A shell without job control starts `command &` with INT ignored; it ends the run all the same."""
    signal.signal(number, signal.SIG_IGN)
    Interrupt().listen()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), number)


class _Dropped:
    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupt_that_python_dropped_comes_at_the_next_check() -> None:
    """A KeyboardInterrupt inside a finalizer goes no further; the run learns of it when it looks."""
    interrupt = Interrupt().listen()
    interrupt.check()
    dropped = _Dropped()
    del dropped
    with pytest.raises(KeyboardInterrupt):
        interrupt.check()


@pytest.mark.parametrize("second", BOTH)
def test_second_signal_leaves_the_ending_in_peace(second: signal.Signals) -> None:
    """What has to be ended and removed after the first signal is not cut short by another."""
    Interrupt().listen()
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    try:
        os.kill(os.getpid(), second)
    except KeyboardInterrupt:
        pytest.fail("the second signal interrupts too")
