"""Graders turn a response into a verdict and one number; see `make_grader` for the names."""

from es_mpi.grading.registry import GRADERS, Grader, make_grader

__all__ = ["GRADERS", "Grader", "make_grader"]
