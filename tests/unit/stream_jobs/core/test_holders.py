"""What a holder says of itself where the pod's record knows less than the kubelet."""

from schemas.pods import ContainerRecord, PodRecord
from stream_jobs.core.identity import Directory

POD = PodRecord(uid="u", namespace="n", name="p", node="n1", containers=[ContainerRecord(name="main")])


def test_container_without_a_spec_has_no_known_request() -> None:
    """What a container that the pod's record lacks asked for is not known; one that asks for none asked for 0."""
    directory = Directory([POD])
    other = directory.holder_of_grant(POD, "n", "p", "other")
    assert (other.id, other.requested_units, set(other.flags)) == ("u/other", None, {"container_unknown"})
    assert directory.holder_of_grant(POD, "n", "p", "main").requested_units == 0
