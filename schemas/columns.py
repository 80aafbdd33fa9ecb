"""What a column is: name, Arrow type by name, meaning. Pure data, so that the node agent needs no Arrow library."""

from typing import NamedTuple


class Column(NamedTuple):
    """A column of a record; `type` is one of utf8, int8, int16, int32, int64, list<utf8>."""

    name: str
    type: str
    meaning: str
    nullable: bool = False
