"""Rows of GPUs in MIG mode: the GPU's own becomes that of its free slices, or is left out where sizes are not known."""

from typing import Any

import numpy as np
import pytest

from schemas.samples import DEVICE_DEFAULTS
from schemas.units import STATUS_NOT_ASKED
from stream_jobs.decode import DEVICE_SCHEMA, PROCESS_SCHEMA, DecodeError, decode_readings, encode_reading

GPU = {"gpu_uuid": "GPU-0", "mig_mode": 1, "samples_status": 3, "processes_status": 3}
INSTANCE = GPU | {"gpu_uuid": "MIG-0"}
SIZED = {"slices": 7, "slices_total": 7}


def payload(*devices: dict[str, Any]) -> bytes:
    """A message of devices, each with one process whose pid is the row."""
    rows = [
        dict.fromkeys(DEVICE_SCHEMA.names, 0) | DEVICE_DEFAULTS | {"gpu_model": "T", "read_us": 9} | d for d in devices
    ]
    processes = [dict.fromkeys(PROCESS_SCHEMA.names, 0) | {"device_row": n, "pid": 1 + n} for n in range(len(devices))]
    columns = [
        {f.name: np.array([r[f.name] for r in part], object if str(f.type) == "string" else f.type.to_pandas_dtype())
         for f in schema}
        for part, schema in ((rows, DEVICE_SCHEMA), (processes, PROCESS_SCHEMA))
    ]  # fmt: skip
    return encode_reading(*columns)


def shown(*payloads: bytes) -> list[list[tuple[str, str, list[int]]]]:
    """Per message its devices with parent and pids."""
    found = []
    for decoded in decode_readings(payloads):
        assert not isinstance(decoded, DecodeError)
        device, process = decoded
        pids = [process["pid"][process["device_row"] == n].tolist() for n in range(len(device["gpu_uuid"]))]
        found.append(list(zip(device["gpu_uuid"].tolist(), device["parent_uuid"].tolist(), pids, strict=True)))
    return found


def test_gpu_of_known_size_becomes_its_free_slices() -> None:
    """Its processes, which its instances list too, go; a whole GPU and messages beside it stay as they are."""
    mig = payload(GPU | SIZED, INSTANCE | SIZED | {"slices": 1, "parent_uuid": "GPU-0"}, {"gpu_uuid": "GPU-1"})
    plain = payload({"gpu_uuid": "GPU-0"}, {"gpu_uuid": "GPU-2"})
    assert shown(plain, mig, plain) == [
        [("GPU-0", "", [1]), ("GPU-2", "", [2])],
        [("GPU-0/free", "GPU-0", []), ("MIG-0", "GPU-0", [2]), ("GPU-1", "", [3])],
        [("GPU-0", "", [1]), ("GPU-2", "", [2])],
    ]


def test_free_slices_have_no_energy_and_no_use() -> None:
    """What the driver tells of the board, some day perhaps its use as well, is not that of the slices nobody has."""
    ((device, _),) = decode_readings([payload(GPU | SIZED | {"samples_status": 0, "processes_status": 0})])  # type: ignore[misc]
    assert device["energy_status"].tolist() == [STATUS_NOT_ASKED]
    assert (device["samples_status"].tolist(), device["processes_status"].tolist()) == ([3], [3])


@pytest.mark.parametrize("parent", ["GPU-0", ""])
def test_gpu_of_unknown_size_is_left_out_beside_its_instances(parent: str) -> None:
    """Only beside its own instances, or such as say not whose they are; alone it stays, and nothing of it is known."""
    instance = INSTANCE | {"parent_uuid": parent}
    other = GPU | {"gpu_uuid": "GPU-9"}
    (found,) = shown(payload(GPU, instance, other))
    assert found == [("MIG-0", parent, [2])] + ([("GPU-9", "", [3])] if parent else [])
    assert shown(payload(GPU)) == [[("GPU-0", "", [1])]]


@pytest.mark.parametrize(("sizes", "why"), [((0, 7), "slices"), ((8, 7), "slices"), ((1, 65), "slices_total")])
def test_sizes_that_cannot_be_are_refused(sizes: tuple[int, int], why: str) -> None:
    """An instance is no larger than its GPU."""
    (refused,) = decode_readings([payload(INSTANCE | dict(zip(("slices", "slices_total"), sizes, strict=True)))])
    assert isinstance(refused, DecodeError) and f"device row 0: {why} = " in str(refused)


@pytest.mark.parametrize(
    ("device", "why"),
    [
        ({"gpu_uuid": "GPU-0/free"}, "ends in /free"),
        ({"gpu_uuid": "GPU-0", "slices_total": 7}, "slices_total = 7: slices outside MIG mode"),
    ],
)
def test_what_only_the_meter_may_say_is_refused(device: dict[str, Any], why: str) -> None:
    """An agent that names free slices itself, or gives a whole GPU a size, would break its GPU's sum."""
    (refused,) = decode_readings([payload(device)])
    assert isinstance(refused, DecodeError) and why in str(refused)
