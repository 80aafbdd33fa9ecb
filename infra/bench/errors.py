"""Why a benchmark has no figure."""


class BenchError(RuntimeError):
    """A measurement could not be taken; says which, what was seen and against what."""
