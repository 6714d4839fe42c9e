"""A store in parts for a distributed engine, out of core: what `gz partition` does before a framework writes.

    assign   the part of each node                            assign.py, csrc/assign
    number   new ids: consecutive in a part and type          number.py
    divide   every edge to its part, cut ones to two          edges.py
    part     after part: its graph and rows, written by `Writer`   part.py

The framework is handed in (`Writer`, and `metis`): nothing here knows one. Memory is blocks of edges and one
part; what is as long as the graph lies in files. Each phase is journaled: a killed run is gone on with.
"""

from gz.partitioner.assign import Metis
from gz.partitioner.options import METHODS, Options
from gz.partitioner.part import Part, PartGraph, Rows
from gz.partitioner.report import Report
from gz.partitioner.run import Writer, partition
from gz.partitioner.whole import Whole

__all__ = [
    "METHODS",
    "Metis",
    "Options",
    "Part",
    "PartGraph",
    "Report",
    "Rows",
    "Whole",
    "Writer",
    "partition",
]
