"""What a written mathematical answer means: parsed to a small tree, evaluated exactly or to 60 digits, and compared."""

from es_mpi.grading.maths.node import Node, Unreadable
from es_mpi.grading.maths.parser import parse
from es_mpi.grading.maths.same import same

__all__ = ["Node", "Unreadable", "parse", "same"]
