"""What the kubelet granted, and when its word is taken."""

from collector.errors import Retry
from collector.grants import AGAIN_US, DOUBT_US, EMPTY_AFTER_RESTART, OK, UNAVAILABLE, Grants
from schemas.snapshots import DeviceSlots, Grant

T, PERIOD = 1_000_000_000, 10_000_000
GRANT = Grant(gpu_uuid="GPU-0", slot="GPU-0", resource="r", namespace="n", pod_name="p", container_name="c")


class Kubelet:
    """A kubelet that answers what it is told."""

    def __init__(self) -> None:
        self.answer: list[Grant] | None = [GRANT]
        self.socket: object = 1
        self.slot_questions = 0

    def grants(self) -> list[Grant]:
        """The grants, or Retry."""
        if self.answer is None:
            raise Retry("away")
        return self.answer

    def slots(self) -> list[DeviceSlots]:
        """One slot."""
        self.slot_questions += 1
        return [DeviceSlots(gpu_uuid="GPU-0", slots=1)]


def _grants(kubelet: Kubelet) -> Grants:
    return Grants(kubelet, lambda: kubelet.socket, PERIOD)


def test_grants_are_known_after_an_answer() -> None:
    """Before the first answer the grants are unavailable; after it they are what the kubelet said."""
    grants = _grants(Kubelet())
    assert (grants.status, grants.grants) == (UNAVAILABLE, [])
    assert grants.ask(T) == T + PERIOD
    assert (grants.status, grants.grants, grants.slots[0].slots) == (OK, [GRANT], 1)


def test_grants_of_an_absent_kubelet_are_marked() -> None:
    """While the kubelet is away the last known grants go on, and the status says that they are not fresh."""
    kubelet = Kubelet()
    grants = _grants(kubelet)
    grants.ask(T)
    kubelet.answer = None
    grants.ask(T + PERIOD)
    assert (grants.status, grants.grants) == (UNAVAILABLE, [GRANT])


def test_empty_answer_after_a_restart_is_doubted_for_5_s() -> None:
    """A kubelet that was restarted answers empty for a second: not believed, asked again soon, then believed."""
    kubelet = Kubelet()
    grants = _grants(kubelet)
    grants.ask(T)
    kubelet.answer, kubelet.socket = [], 2
    assert grants.ask(T + PERIOD) == T + PERIOD + AGAIN_US
    assert (grants.status, grants.grants) == (EMPTY_AFTER_RESTART, [GRANT])
    grants.ask(T + PERIOD + DOUBT_US - 1)
    assert grants.status == EMPTY_AFTER_RESTART
    grants.ask(T + PERIOD + DOUBT_US)
    assert (grants.status, grants.grants) == (OK, [])


def test_empty_answer_of_a_running_kubelet_is_believed() -> None:
    """Where the socket is the old one, empty means that nothing is granted."""
    kubelet = Kubelet()
    grants = _grants(kubelet)
    grants.ask(T)
    kubelet.answer = []
    grants.ask(T + PERIOD)
    assert (grants.status, grants.grants) == (OK, [])


def test_slots_are_asked_once_a_minute() -> None:
    """Slots hardly change: they are asked at first, once a minute, and after a restart of the kubelet."""
    kubelet = Kubelet()
    grants = _grants(kubelet)
    for n in range(7):
        grants.ask(T + n * PERIOD)
    assert kubelet.slot_questions == 2
    kubelet.socket = 2
    grants.ask(T + 7 * PERIOD)
    assert kubelet.slot_questions == 3


def test_grants_stand_where_the_kubelet_does_not_say_its_slots() -> None:
    """A kubelet that lists grants but fails on what it can grant leaves the grants known, the slots as they were."""

    class Silent(Kubelet):
        def slots(self) -> list[DeviceSlots]:
            raise Retry("internal")

    grants = _grants(Silent())
    grants.ask(T)
    assert (grants.status, grants.grants, grants.slots) == (OK, [GRANT], [])
