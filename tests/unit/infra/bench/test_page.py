"""Figures: from outcomes to the rows and the page that people read."""

from infra.bench.outcome import Outcome, decode, encode
from infra.bench.page import page, recorded, table
from infra.bench.run import DOCS

FAUST = Outcome(name="faust_event", samples=1_000, cpu_s=0.2, wall_s=0.5, peak_mib=60.0, shape={"gpus": 8})
CORE = Outcome(name="core", samples=8_000_000, cpu_s=1.0, wall_s=2.0, peak_mib=300.0, shape={"gpus": 2_000})


def test_row_says_how_many_times_cheaper_than_the_per_event_job() -> None:
    """The ratio is that of CPU a sample, not of wall time or of totals; the job itself has 1."""
    row = CORE.row(FAUST)
    assert row["samples_per_s_per_core"] == 8_000_000
    assert row["samples_per_s_wall"] == 4_000_000
    assert row["cpu_s_per_million_samples"] == 0.125
    assert row["ratio_to_faust_event"] == 1600.0
    assert FAUST.row(FAUST)["ratio_to_faust_event"] == 1.0
    assert CORE.row()["ratio_to_faust_event"] is None


def test_outcome_survives_the_line_that_a_program_prints() -> None:
    """What a measured process prints is what the bench reads."""
    assert decode(encode(CORE)) == CORE


def test_page_shows_programs_and_sweeps() -> None:
    """A program without a ratio has an empty cell, and a sweep stands under its own heading."""
    sweep = CORE.row() | {"varies": "window_s", "window_s": 300, "node_windows": 7, "cores": 2, "load_1m": 3.5}
    text = page([CORE.row(FAUST), FAUST.row()], [sweep])
    assert "| core | 8,000,000 | 0.125 | 300 | 1,600.0 | 2,000 | 8,000,000 |" in text
    assert "| faust_event | 5,000 | 200.000 | 60 |  | 8 | 1,000 |" in table([FAUST.row()])
    assert text.index("## Length of the window") < text.index("| 300 | 0.125 |")
    assert "## Workers" not in text
    assert "2 cores whose load was 0.0 to 3.5" in text


def test_page_in_the_repository_is_made_of_the_record_beside_it() -> None:
    """There is no page of figures without the recorded run that it is made of, word for word."""
    page_file, record = DOCS / "bench.md", DOCS / "bench.json"
    made = {page_file: page(*recorded(record.read_text()))} if record.exists() else {}
    assert {file: file.read_text() for file in [page_file] if file.exists()} == made
