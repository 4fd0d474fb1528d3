"""es_mpi: evolution strategies for language models over MPI ranks."""

__version__ = "0.1.0"
