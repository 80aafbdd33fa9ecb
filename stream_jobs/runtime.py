"""How a process that works on columns uses memory: allocator and garbage collector. Changes no result.

Owns process-wide settings of the C library and the interpreter, so it is called once, by a process's main.
"""

import ctypes
import gc

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8
_KEPT_BYTES = 256 << 20
_PAD_BYTES = 64 << 20
_ARENAS = 2
"""Each thread that works on columns would keep freed memory of its own; they take turns anyway."""


def settle() -> None:
    """Keeps freed memory for the next columns, and looks for garbage less often.

    By default glibc gives each freed column back to the system, and the next one costs a fault a page: of a meter's
    CPU time that was a fifth. Elsewhere than on glibc nothing is changed. The records a meter holds make no cycles,
    and looking through millions of them again and again would find none.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt") and hasattr(library, "gnu_get_libc_version"):
        for option, value in ((_MMAP_THRESHOLD, 32 << 20), (_TRIM_THRESHOLD, _KEPT_BYTES), (_TOP_PAD, _PAD_BYTES)):
            library.mallopt(option, value)
        library.mallopt(_ARENA_MAX, _ARENAS)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
