"""gpu-samples: two Arrow IPC streams back to back: device readings, then the process rows of those readings.

A reading is self-contained: both ends of its span and of its energy counter. Every device of the node has a row in
every reading, also when its calls failed: the list of devices and the driver's answers are data. `*_status` is the
NVML return code of the call, and its value counts only where that is 0.
A GPU in MIG mode has a row, and each of its instances has its own.
"""

from .columns import Column

DEVICE_COLUMNS = (
    Column("gpu_uuid", "utf8", "NVML UUID of the GPU or MIG instance"),
    Column("gpu_index", "int32", "index at this reading; display only"),
    Column("gpu_model", "utf8", "product name"),
    Column("read_us", "int64", "event time of the reading"),
    Column("span_start_us", "int64", "start of the span: the device's newest sample at the previous reading"),
    Column("span_end_us", "int64", "end of the span: the device's newest sample; equal to the start: nothing observed"),
    Column("sample_count", "int32", "device samples in the span"),
    Column("sample_sum_points", "int64", "sum of those samples, in points of 100"),
    Column("samples_status", "int16", "answer of nvmlDeviceGetSamples"),
    Column("processes_status", "int16", "answer of GetProcessUtilization; 6 is a true zero only with samples"),
    Column("lists_status", "int16", "answer of the process lists: 0, or the first that was not"),
    Column("memory_total_bytes", "int64", "device memory, -1 unknown"),
    Column("memory_used_bytes", "int64", "device memory in use, -1 unknown"),
    Column("energy_start_mj", "int64", "energy counter at the previous reading"),
    Column("energy_end_mj", "int64", "energy counter at this reading"),
    Column("energy_status", "int16", "answer of nvmlDeviceGetTotalEnergyConsumption at both ends"),
    Column("mig_mode", "int8", "1 MIG, 0 not, -1 unknown"),
    Column("mapping_seq", "int64", "snapshot of the same epoch under which the reading was taken"),
    Column("dropped_rows", "int32", "process rows refused as impossible (pid 0, above 100 points, odd times)"),
    Column("flags", "int32", "bits: READING_FLAGS"),
    Column("parent_uuid", "utf8", "GPU that a MIG instance is a part of; empty: it is none, or version 1"),
    Column("slices", "int16", "compute slices: of an instance its own, of a GPU in MIG mode all of it; else 1"),
    Column("slices_total", "int16", "compute slices of the whole GPU (7, 4); 1 outside MIG, and where not known"),
)
DEVICE_DEFAULTS: dict[str, str | int] = {"parent_uuid": "", "slices": 1, "slices_total": 1}
"""Columns that version 2 added, and what version 1 said without them."""

PROCESS_COLUMNS = (
    Column("device_row", "int32", "row of the first stream"),
    Column("pid", "int32", "process id in the host's namespace"),
    Column("start_ticks", "int64", "start time, clock ticks since boot; -1 the process was gone before it was read"),
    Column("sm_util_points", "int32", "smUtil over the span; -1: no row, so 0 where the call answered"),
    Column("mem_util_points", "int32", "memUtil, -1 no row"),
    Column("enc_util_points", "int32", "encUtil, -1 no row"),
    Column("dec_util_points", "int32", "decUtil, -1 no row"),
    Column("memory_used_bytes", "int64", "device memory of the process, -1 not available or not listed"),
    Column("lists", "int8", "bits: 1 compute, 2 graphics, 4 MPS list; 0: seen in utilisation only"),
    Column("gpu_instance_id", "int32", "-1 outside MIG"),
    Column("compute_instance_id", "int32", "-1 outside MIG"),
)

LONGEST_SPAN_US = 60_000_000
"""A reading spans no more: the driver's ring holds 12 to 14 s (72 s at one sample a second), a window no less."""
LONGEST_MESSAGE_US = 3_600_000_000
"""A message's readings lie no further apart; a collector gathers for a minute at most."""
MPS_LIST = 4
"""Bit of `lists`: the process is in the MPS list."""

FIRST_READING = 1
RING_OVERFLOW = 2
CLOCK_STEP = 4
DEVICE_LOST = 8
ENERGY_RESET = 16
CLOCK_AHEAD = 32
SLICES_UNKNOWN = 64
READING_FLAGS = {
    FIRST_READING: "first_reading",
    RING_OVERFLOW: "ring_overflow",
    CLOCK_STEP: "clock_step",
    DEVICE_LOST: "device_lost",
    ENERGY_RESET: "energy_reset",
    CLOCK_AHEAD: "clock_ahead",
    SLICES_UNKNOWN: "slices_unknown",
}
"""first_reading: no span yet; ring_overflow: the span was cut to what the driver's ring still held; clock_step: the
wall clock moved, a new boot segment begins; device_lost: no call answers; energy_reset: the counter went back,
so the energy of the reading is not known; clock_ahead: the meter's own, the
reading came more than a minute before its time by the broker's clock; slices_unknown: the driver did not tell how
large the instances of this GPU are, so each counts as a device of its own."""
