"""The node's devices behind the driver's library, whatever it answers."""

from typing import Any

import pytest

from collector.answers import GPU_IS_LOST, NOT_ASKED, NOT_SUPPORTED
from collector.driver import FORGIVE_EVERY, PROBE_EVERY, Driver
from collector.errors import Retry, Stop

SAMPLES, PROCESSES = "nvmlDeviceGetSamples", "nvmlDeviceGetProcessUtilization"
COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"


def test_driver_reads_rows(library: Any) -> None:
    """Samples, utilisation, the three lists, memory and energy of a device arrive as the driver gave them."""
    gpu = library.gpus[0]
    gpu.samples, gpu.utilisation = [(20, 50), (10, 40)], [(7, 20, 30, 5, 0, 0)]
    gpu.compute, gpu.graphics, gpu.mps = [(7, 1 << 30, 0xFFFFFFFF, 0xFFFFFFFF)], [(8, 2**64 - 1, 1, 2)], []
    [answer] = Driver().read({"GPU-0": 5})
    assert [tuple(row) for row in answer.samples] == [(10, 40), (20, 50)]
    assert [tuple(row) for row in answer.processes] == [(7, 20, 30, 5, 0, 0)]
    assert [tuple(row) for row in answer.listed] == [(7, 1 << 30, -1, -1, 1), (8, None, 1, 2, 2)]
    assert answer.statuses() == (0, 0, 0, 0)
    assert (answer.memory_total_bytes, answer.memory_used_bytes, answer.energy_mj) == (80 << 30, 9 << 30, 1000)


def test_driver_first_reading_does_not_ask_utilisation(library: Any) -> None:
    """A device without a last seen sample is only primed: utilisation over an unknown span is not asked."""
    [answer] = Driver().read({})
    assert answer.processes_status == NOT_ASKED
    assert library.calls[PROCESSES] == 0


def test_driver_grows_its_buffer(library: Any) -> None:
    """More rows than there is room for are asked for again with more room, and all arrive."""
    library.gpus[0].compute = [(pid, 1, 0, 0) for pid in range(1, 700)]
    [answer] = Driver().read({})
    assert [row.pid for row in answer.listed] == list(range(1, 700))


def test_driver_asks_again_when_a_sample_came_between(library: Any) -> None:
    """Where utilisation speaks of a sample that the device's samples lack, the samples are read once more."""
    library.gpus[0].samples, library.gpus[0].utilisation = [(10, 40)], [(7, 20, 30, 0, 0, 0)]
    Driver().read({"GPU-0": 5})
    assert library.calls[SAMPLES] == 2


@pytest.mark.parametrize("code", [3, 4, 6, 15, 17, 19, 23, 27, 999])
def test_driver_code_is_data(library: Any, code: int) -> None:
    """Whatever code a call answers is in the reading, and the device keeps its row."""
    library.codes = {SAMPLES: code, COMPUTE: code}
    [answer] = Driver().read({"GPU-0": 5})
    assert (answer.samples_status, answer.lists_status) == (code, code)


def test_driver_does_not_ask_again_what_is_not_supported(library: Any) -> None:
    """NOT_SUPPORTED is remembered and repeated without the call, until MIG mode changes or some minutes passed."""
    library.codes = {PROCESSES: NOT_SUPPORTED}
    driver = Driver()
    for _ in range(3):
        assert driver.read({"GPU-0": 5})[0].processes_status == NOT_SUPPORTED
    assert library.calls[PROCESSES] == 1
    library.gpus[0].mig_mode, library.codes = 1, {}
    assert driver.read({"GPU-0": 5})[0].processes_status != NOT_SUPPORTED
    library.codes = {PROCESSES: NOT_SUPPORTED}
    driver.read({"GPU-0": 5})
    library.codes = {}
    assert {driver.read({"GPU-0": 5})[0].processes_status for _ in range(FORGIVE_EVERY)} == {NOT_SUPPORTED, 6}


def test_driver_lost_gpu_keeps_its_row(library: Any, new_gpu: Any) -> None:
    """Eight GPUs, seven, eight: indices shift, every UUID keeps a row, the lost one says so, and it comes back."""
    library.gpus = [new_gpu(f"GPU-{n}") for n in range(8)]
    driver = Driver()
    assert len(driver.read({})) == 8
    gone = library.gpus.pop(3)
    answers = {answer.gpu_uuid: answer for answer in driver.read({})}
    assert len(answers) == 8
    assert answers["GPU-3"].samples_status == GPU_IS_LOST
    assert (answers["GPU-4"].gpu_index, answers["GPU-4"].lists_status) == (3, 0)
    library.gpus.insert(3, gone)
    assert all(answer.lists_status == 0 for answer in driver.read({}))


def test_driver_searches_for_a_lost_gpu_ever_more_rarely(library: Any) -> None:
    """A GPU that answers GPU_IS_LOST is looked for soon, then once a minute, and answers again when it is back."""
    driver = Driver()
    driver.read({})
    library.codes = {"nvmlDeviceGetHandleByIndex_v2": GPU_IS_LOST, SAMPLES: GPU_IS_LOST}
    searched = library.calls["nvmlDeviceGetHandleByIndex_v2"]
    statuses = {driver.read({})[0].samples_status for _ in range(50)}
    assert statuses == {GPU_IS_LOST}
    assert library.calls["nvmlDeviceGetHandleByIndex_v2"] - searched in range(5, 9)
    library.codes = {}
    statuses_after = [driver.read({})[0].lists_status for _ in range(PROBE_EVERY)]
    assert statuses_after[-1] == 0


def test_driver_handle_refused_is_a_row(library: Any) -> None:
    """A GPU whose handle is refused from the start has a row with the code, under a name by its index."""
    library.codes = {"nvmlDeviceGetHandleByIndex_v2": 4}
    [answer] = Driver().read({})
    assert (answer.gpu_uuid, answer.samples_status) == ("UNKNOWN-0", 4)


def test_driver_starts_the_library_again(library: Any) -> None:
    """UNINITIALIZED makes the library start again at the next reading; the readings between have the code."""
    driver = Driver()
    driver.read({})
    library.codes = {SAMPLES: 1}
    assert driver.read({})[0].samples_status == 1
    library.codes = {}
    assert driver.read({})[0].lists_status == 0
    assert library.calls["nvmlInitWithFlags"] == 2


def test_driver_starts_again_after_three_unknown(library: Any) -> None:
    """UNKNOWN is counted, and three readings of it in a row start the library again."""
    library.codes = {SAMPLES: 999}
    driver = Driver()
    for _ in range(4):
        driver.read({})
    assert library.calls["nvmlInitWithFlags"] == 2


@pytest.mark.parametrize("code", [12, 18, 999])
def test_driver_ends_where_only_a_new_process_helps(library: Any, code: int) -> None:
    """No library, a library of another version or UNKNOWN at start end the process, with the code in the reason."""
    library.codes = {"nvmlInitWithFlags": code}
    with pytest.raises(Stop, match=str(code)):
        Driver().read({})


def test_driver_replaced_while_running_ends(library: Any) -> None:
    """LIB_RM_VERSION_MISMATCH in a call ends the process: only a new one maps the new library."""
    driver = Driver()
    driver.read({})
    library.codes = {COMPUTE: 18}
    with pytest.raises(Stop):
        driver.read({})


def test_driver_not_loaded_is_waited_for(library: Any) -> None:
    """DRIVER_NOT_LOADED before any device is Retry; after, every device has a row with the code."""
    library.codes = {"nvmlInitWithFlags": 9}
    with pytest.raises(Retry):
        Driver().read({})
    library.codes = {}
    driver = Driver()
    driver.read({})
    library.codes = {SAMPLES: 1, "nvmlInitWithFlags": 9}
    driver.read({})
    assert driver.read({})[0].samples_status == 9


def test_driver_garbled_lists_are_refused(library: Any) -> None:
    """Drivers 535.43 to 535.97 have a fifth field in list rows: their lists are not read, and not empty either."""
    library.driver_version = "535.54.03"
    library.gpus[0].compute = [(7, 1, 0, 0)]
    [answer] = Driver().read({})
    assert (answer.lists_status, answer.listed) == (25, [])


def test_driver_finds_mig_instances(library: Any, new_gpu: Any) -> None:
    """A GPU in MIG mode has a row, and each of its instances; an instance that is gone has none."""
    instance = new_gpu("MIG-1")
    instance.gpu_instance_id = 7
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [instance]
    driver = Driver()
    assert [(answer.gpu_uuid, answer.mig_mode) for answer in driver.read({})] == [("GPU-0", 1), ("MIG-1", 1)]
    assert (driver.uuid_of(0, None), driver.uuid_of(0, 7), driver.uuid_of(0, 8)) == ("GPU-0", "MIG-1", None)
    library.gpus[0].instances = []
    assert driver.read({})[1].lists_status == 2
    assert [answer.gpu_uuid for answer in driver.read({})] == ["GPU-0"]


def test_driver_handle_that_is_used_again_tells_nothing_of_the_old_instance(library: Any, new_gpu: Any) -> None:
    """After a change of layout the handle of an instance may be another's: it is searched anew, and not mixed up."""
    old, new = new_gpu("MIG-1"), new_gpu("MIG-2")
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [old]
    driver = Driver()
    driver.read({})
    library.gpus[0].instances, new.energy_mj = [new], 77
    [_, gone] = driver.read({})
    assert (gone.gpu_uuid, gone.samples_status, gone.energy_status) == ("MIG-1", 2, 2)
    [_, found] = driver.read({})
    assert (found.gpu_uuid, found.energy_mj) == ("MIG-2", 77)


def test_driver_does_not_ask_instances_again_after_a_search(library: Any, new_gpu: Any) -> None:
    """A search for new instances, each minute, does not forget what the others do not support."""
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [new_gpu("MIG-1")]
    library.codes["nvmlDeviceGetSamples"] = 3
    driver = Driver()
    for _ in range(30):
        driver.read({})
    assert library.calls["nvmlDeviceGetSamples"] == 2


def test_driver_lost_mig_gpu_keeps_its_instances(library: Any, new_gpu: Any) -> None:
    """A MIG GPU off the bus stays a MIG GPU with its instances, so that its hardware is not counted a second time."""
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [new_gpu("MIG-1")]
    driver = Driver()
    driver.read({})
    library.codes = {"nvmlDeviceGetCount_v2": 15}
    lost = [(answer.gpu_uuid, answer.mig_mode, answer.samples_status) for answer in driver.read({})]
    assert lost == [("GPU-0", 1, GPU_IS_LOST), ("MIG-1", 1, GPU_IS_LOST)]
    library.codes = {}
    assert [(answer.mig_mode, answer.lists_status) for answer in driver.read({})] == [(1, 0), (1, 0)]


def test_driver_mode_that_is_not_told_is_the_last_known(library: Any, new_gpu: Any) -> None:
    """A MIG mode call that fails once changes neither the mode nor the list of instances."""
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [new_gpu("MIG-1")]
    driver = Driver()
    driver.read({})
    library.codes = {"nvmlDeviceGetMigMode": 999}
    assert [(answer.gpu_uuid, answer.mig_mode) for answer in driver.read({})] == [("GPU-0", 1), ("MIG-1", 1)]


def _sizes(driver: Driver) -> dict[str, tuple[str, int, int]]:
    return {a.gpu_uuid: (a.parent_uuid, a.slices, a.slices_total) for a in driver.read({})}


def test_driver_measures_instances_in_slices(library: Any, new_gpu: Any) -> None:
    """An instance has its slices of its GPU's, which has all of its largest profile's: 7, of a smaller GPU 4."""
    instance = new_gpu("MIG-1")
    instance.slices, library.gpus[0].slices_total = 2, 4
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [instance]
    library.gpus.append(new_gpu("GPU-1"))
    expected = {"GPU-0": ("", 4, 4), "MIG-1": ("GPU-0", 2, 4), "GPU-1": ("", 1, 1)}
    driver = Driver()
    assert _sizes(driver) == expected
    library.codes["nvmlDeviceGetMigMode", "GPU-1"] = 999
    library.codes |= {"nvmlDeviceGetAttributes_v2": 999, "nvmlDeviceGetGpuInstanceProfileInfo": 999}
    library.gpus.append(new_gpu("GPU-2"))
    assert _sizes(driver) == expected | {"GPU-2": ("", 1, 1)}, "the sizes of what is known never change"


def _three(library: Any, new_gpu: Any) -> Driver:
    """A driver that knows two instances of 3 and 1 slices, of which a search is due at the next reading."""
    first, second = new_gpu("MIG-1"), new_gpu("MIG-2")
    first.slices = 3
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [first, second]
    driver = Driver()
    for _ in range(PROBE_EVERY - 1):
        driver.read({})
    return driver


@pytest.mark.parametrize(
    "call",
    [("nvmlDeviceGetMaxMigDeviceCount", "GPU-0"), ("nvmlDeviceGetMigDeviceHandleByIndex", "GPU-0"),
     ("nvmlDeviceGetUUID", "MIG-1")],
)  # fmt: skip
def test_driver_keeps_instances_a_search_misses(library: Any, new_gpu: Any, call: tuple[str, str]) -> None:
    """A call that fails once at a search makes no slices free: what was there is there, and looked for again soon."""
    driver = _three(library, new_gpu)
    library.codes[call] = 999
    expected = {"GPU-0": ("", 7, 7), "MIG-1": ("GPU-0", 3, 7), "MIG-2": ("GPU-0", 1, 7)}
    assert _sizes(driver) == expected
    del library.codes[call]
    library.gpus[0].instances = library.gpus[0].instances[1:]
    assert _sizes(driver) == {uuid: size for uuid, size in expected.items() if uuid != "MIG-1"}


def test_driver_measures_a_new_instance_at_the_next_reading_where_the_call_fails(library: Any, new_gpu: Any) -> None:
    """Its neighbours keep their sizes meanwhile, and it has none that would be guessed."""
    driver = _three(library, new_gpu)
    library.gpus[0].instances = [*library.gpus[0].instances, new_gpu("MIG-3")]
    library.codes["nvmlDeviceGetAttributes_v2", "MIG-3"] = 999
    expected = {"GPU-0": ("", 7, 7), "MIG-1": ("GPU-0", 3, 7), "MIG-2": ("GPU-0", 1, 7)}
    assert _sizes(driver) == expected
    library.codes.clear()
    assert _sizes(driver) == expected | {"MIG-3": ("GPU-0", 1, 7)}


@pytest.mark.parametrize("call", ["nvmlDeviceGetAttributes_v2", "nvmlDeviceGetGpuInstanceProfileInfo"])
def test_driver_without_a_size_weighs_none_of_the_gpus_instances(library: Any, new_gpu: Any, call: str) -> None:
    """A GPU of which one size is not known has no sizes: parts of it would not add up."""
    library.gpus[0].mig_mode, library.gpus[0].instances = 1, [new_gpu("MIG-1"), new_gpu("MIG-2")]
    library.codes[call, "MIG-2" if "Attributes" in call else "GPU-0"] = 3
    assert _sizes(Driver()) == {"GPU-0": ("", 1, 1), "MIG-1": ("GPU-0", 1, 1), "MIG-2": ("GPU-0", 1, 1)}
