"""Frames of the spool: every flipped bit and every cut of a small file."""

import os
import tempfile
from pathlib import Path

from collector.spool_records import Mark, encode_marks, encode_message, read_frame
from schemas.headers import Headers


def _mark(seq):
    headers = Headers(record="reading", cluster="c", node="n", boot_id="b", epoch_us=1, seq=seq)
    return Mark("gpu-samples", headers, 10 + seq, 11)


MESSAGES = [(_mark(seq), bytes([seq]) * (30 + seq)) for seq in (1, 2, 3)]
FILE = encode_marks([_mark(0)]) + b"".join(encode_message(*message) for message in MESSAGES)


def _read(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_bytes(content)
        fd, at, frames = os.open(path, os.O_RDONLY), 0, []
        try:
            while at < len(content):
                frames.append(read_frame(fd, at, len(content)))
                assert at < frames[-1].end <= len(content)
                at = frames[-1].end
        finally:
            os.close(fd)
    return frames


def test_every_flipped_bit_costs_one_frame():
    """Whichever bit is flipped: what is read was written, and at most one frame is not."""
    for at in range(len(FILE)):
        for bit in range(8):
            content = bytearray(FILE)
            content[at] ^= 1 << bit
            frames = _read(bytes(content))
            whole = [(frame.mark, frame.payload) for frame in frames if frame.payload is not None]
            assert all(one in MESSAGES for one in whole) and whole == sorted(whole, key=lambda one: one[0].seq)
            assert len(whole) + any(frame.marks == [_mark(0)] for frame in frames) >= 3
            assert all(frame.mark in (None, *(mark for mark, _ in MESSAGES)) for frame in frames)


def test_every_cut_costs_what_is_cut_off():
    """Cut anywhere: the frames before are read, the torn one is known where its head is whole, and never read."""
    ends = [frame.end for frame in _read(FILE)]
    for size in range(1, len(FILE)):
        frames = _read(FILE[:size])
        assert sum(frame.payload is not None or frame.marks is not None for frame in frames) == sum(
            end <= size for end in ends
        )
