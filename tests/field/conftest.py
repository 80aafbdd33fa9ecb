"""A node on its own files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector import nvml
from tests.field.gpu import Library
from tests.field.node import Node


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes a node with so many GPUs."""
    scripted = Library()
    nvml.use(scripted)
    yield lambda gpus=1: Node(tmp_path, scripted, gpus)
    nvml.use(None)


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    """A node with one GPU."""
    return make_node()
