"""Checks of the driver: is its library there, which GPUs does it know, and what does it answer about each.

Judges what the agent's own Driver read; makes no NVML call of its own but for two versions.
Return codes: answers.py. Tested in tests/unit/collector/test_doctor.py.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from collector import nvml
from collector.answers import (
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    DeviceAnswer,
)
from collector.driver import Driver
from collector.errors import Retry, Stop
from collector.nvml_rows import lists_are_garbled

from .finding import Check, Finding

LIBRARY = Check(
    "driver library",
    "nothing of this node's GPUs is metered: their time is unobserved",
    "Use runtimeClassName: nvidia with NVIDIA_VISIBLE_DEVICES=all and NVIDIA_DRIVER_CAPABILITIES=utility, and see "
    "that nvidia-smi works on the node.",
)
VERSION = Check(
    "driver version",
    "process lists are not read, as every second row would be garbage: memory of each process is unknown, and who "
    "holds a context without work",
    "Update the driver to 535.98 or newer.",
)
GPUS = Check(
    "gpus",
    "the time of the GPUs named is unobserved",
    "Give the agent all of /dev/nvidia* (NVIDIA_VISIBLE_DEVICES=all); a lost GPU needs a reset or a reboot.",
)
MIG = Check(
    "mig",
    "who is on which MIG instance is unknown: their use is unattributed",
    "Set NVIDIA_MIG_MONITOR_DEVICES=all for the agent, or run it privileged.",
)
LISTS = Check(
    "process lists",
    "memory of processes is unknown, and who holds a context without work",
    "Run the agent privileged, and see that nvidia-smi lists processes on the node.",
)
SAMPLES = Check(
    "utilisation samples",
    "how long the GPU was busy is unknown: its time is unobserved, used time is null and never 0",
    "None in software: this GPU or driver (a vGPU guest, say) gives no samples; bill its held time.",
)
PROCESSES = Check(
    "process utilisation",
    "which process used the GPU is unknown: its time is unobserved, used time is null and never 0",
    "None in software: this GPU or driver (a vGPU guest, say) does not tell processes apart; bill its held time.",
)
MEMORY = Check(
    "memory", "memory of the GPU or of its processes is unknown", "Update the driver; run the agent on the host."
)
ENERGY = Check(
    "energy", "energy is unknown, never 0; GPU time is not touched", "None: counters exist from Volta on, not in vGPUs."
)
NAMES = {
    NOT_SUPPORTED: "not supported", NO_PERMISSION: "no permission", NOT_FOUND: "nothing found",
    LIBRARY_NOT_FOUND: "library not found", FUNCTION_NOT_FOUND: "unknown to this driver", GPU_IS_LOST: "GPU lost",
    RESET_REQUIRED: "reset required",
}  # fmt: skip
ANOTHER_CODE = (
    "Give the agent all of /dev/nvidia* or run it privileged, and see what nvidia-smi and the kernel's log say."
)
ANSWERED = (0, NOT_FOUND)
"""Codes of a utilisation call that works; that there was nothing is an answer."""


def read(driver: Driver) -> list[DeviceAnswer]:
    """Every device's answers over all that the driver's ring holds."""
    first = driver.read({})
    return driver.read({answer.gpu_uuid: 0 for answer in first})


def library(driver: Driver, into: list[DeviceAnswer]) -> Finding:
    """Whether the driver's library can be used; the devices' answers are put into `into`."""
    try:
        into += read(driver)
    except (Stop, Retry) as error:
        return LIBRARY.fault(str(error))
    return LIBRARY.ok(f"found, version {nvml.text('nvmlSystemGetNVMLVersion')[1] or 'not told'}")


def version() -> Finding:
    """Whether the driver is one whose process lists have another layout than it says."""
    status, told = nvml.text("nvmlSystemGetDriverVersion")
    if status:
        return VERSION.warning(f"the driver does not tell its version ({named(status)})", "", LIBRARY.fix)
    return VERSION.fault(told) if lists_are_garbled(told) else VERSION.ok(told)


def gpus(answers: Sequence[DeviceAnswer]) -> Finding:
    """Whether there are GPUs, and every one that is counted can be asked."""
    whole = [answer for answer in answers if not _is_instance(answer)]
    if not whole:
        return GPUS.fault("the driver knows no GPU", "there is nothing to meter on this node", LIBRARY.fix)
    away = [(a, status) for a in whole if (status := _away(a))]
    if away:
        return GPUS.fault(f"{len(away)} of {len(whole)} cannot be asked: {_told(away)}")
    models = Counter(answer.gpu_model for answer in whole)
    return GPUS.ok(f"{len(whole)}: " + ", ".join(f"{count} x {model}" for model, count in sorted(models.items())))


def mig(answers: Sequence[DeviceAnswer]) -> Finding:
    """MIG mode of each GPU, and whether the lists of those in MIG mode may be read."""
    there = _there(answers)
    whole = [answer for answer in there if not _is_instance(answer)]
    modes = {0: "off", 1: "on", -1: "unknown"}
    seen = ", ".join(f"GPU {answer.gpu_index} {modes.get(answer.mig_mode, 'unknown')}" for answer in whole) or "no GPU"
    hidden = [(a, a.lists_status) for a in there if a.mig_mode == 1 and a.lists_status == NO_PERMISSION]
    if hidden:
        return MIG.fault(f"{seen}; process lists: {_told(hidden)}")
    if any(answer.mig_mode < 0 for answer in whole):
        return MIG.warning(
            seen, "instances of a GPU whose mode is unknown are not found: their use is unattributed", GPUS.fix
        )
    silent = [a for a in there if a.mig_mode == 1 and a.samples_status not in ANSWERED]
    if silent:
        return MIG.warning(
            f"{seen}; {sum(map(_is_instance, there))} instances, no utilisation ({named(silent[0].samples_status)})",
            "in MIG mode the driver tells no utilisation: used time is null, never 0; held time is known",
            "None in software: bill held time of MIG instances.",
        )
    return MIG.ok(seen)


def lists(answers: Sequence[DeviceAnswer], garbled: bool) -> Finding:
    """Whether the lists can be read; of garbled ones VERSION speaks, of rights in MIG mode MIG."""
    bad = [(a, a.lists_status) for a in _there(answers) if a.lists_status and not _told_by_mig(a)]
    if garbled:
        return LISTS.warning("not read with this driver", VERSION.cost, VERSION.fix)
    if any(status == NO_PERMISSION for _, status in bad):
        return LISTS.fault(_told(bad))
    return LISTS.warning(_told(bad)) if bad else LISTS.ok(f"{sum(len(a.listed) for a in answers)} entries")


def samples(answers: Sequence[DeviceAnswer]) -> Finding:
    """Whether GPUs that are not in MIG mode say how busy they are."""
    bad = _bad(answers, lambda a: a.samples_status)
    if bad:
        return _refused(SAMPLES, bad)
    empty = [(a, a.samples_status) for a in _plain(answers) if not a.samples]
    if empty:
        return SAMPLES.warning(
            f"the ring is empty: {_told(empty)}",
            "readings without samples are unobserved",
            "Ask again after a minute; if it stays so, turn persistence mode on and see what nvidia-smi says.",
        )
    return SAMPLES.ok(f"{sum(len(a.samples) for a in _plain(answers))} in the rings")


def process_utilisation(answers: Sequence[DeviceAnswer]) -> Finding:
    """Whether GPUs that are not in MIG mode say which process used them; that none did is an answer."""
    bad = _bad(answers, lambda a: a.processes_status)
    return _refused(PROCESSES, bad) if bad else PROCESSES.ok(f"{sum(len(a.processes) for a in answers)} processes")


def memory(answers: Sequence[DeviceAnswer]) -> Finding:
    """Whether memory of GPUs and of their processes is told."""
    silent = [f"GPU {a.gpu_index} ({a.gpu_uuid})" for a in _there(answers) if a.memory_total_bytes < 0]
    if silent:
        return MEMORY.warning(f"not told: {', '.join(silent)}")
    without = {row.pid for a in answers for row in a.listed if row.memory_bytes is None}
    return MEMORY.warning(f"not told of {len(without)} processes") if without else MEMORY.ok("told of each GPU")


def energy(answers: Sequence[DeviceAnswer]) -> Finding:
    """Whether whole GPUs have an energy counter."""
    bad = [(a, a.energy_status) for a in _there(answers) if a.energy_status and not _is_instance(a)]
    return ENERGY.warning(_told(bad)) if bad else ENERGY.ok("each GPU has its counter")


def named(status: int) -> str:
    """An NVML return code with its meaning, where it has a common one."""
    return f"NVML code {status}" + (f", {NAMES[status]}" if status in NAMES else "")


def _told(bad: Iterable[tuple[DeviceAnswer, int]]) -> str:
    return "; ".join(f"GPU {answer.gpu_index} ({answer.gpu_uuid}): {named(status)}" for answer, status in bad)


def _refused(check: Check, bad: Sequence[tuple[DeviceAnswer, int]]) -> Finding:
    """A fault that nothing can put right where every code says so; else one of rights or of a passing state."""
    final = all(status in (NOT_SUPPORTED, FUNCTION_NOT_FOUND) for _, status in bad)
    return check.fault(_told(bad), fix="" if final else ANOTHER_CODE)


def _told_by_mig(answer: DeviceAnswer) -> bool:
    return answer.mig_mode == 1 and answer.lists_status in (NO_PERMISSION, NOT_SUPPORTED)


def _is_instance(answer: DeviceAnswer) -> bool:
    return answer.gpu_uuid.startswith("MIG-")


def _away(answer: DeviceAnswer) -> int:
    """The code for which a GPU cannot be asked at all, 0 where it can; one without a UUID gave no handle."""
    lost = next((status for status in answer.statuses() if status in (GPU_IS_LOST, RESET_REQUIRED)), 0)
    return answer.samples_status if answer.gpu_uuid.startswith("UNKNOWN-") else lost


def _there(answers: Sequence[DeviceAnswer]) -> list[DeviceAnswer]:
    return [answer for answer in answers if not _away(answer)]


def _plain(answers: Sequence[DeviceAnswer]) -> list[DeviceAnswer]:
    """Devices that can be asked and are not in MIG mode."""
    return [answer for answer in _there(answers) if answer.mig_mode != 1]


def _bad(answers: Sequence[DeviceAnswer], status_of: Callable[[DeviceAnswer], int]) -> list[tuple[DeviceAnswer, int]]:
    return [(a, status_of(a)) for a in _plain(answers) if status_of(a) not in ANSWERED]
