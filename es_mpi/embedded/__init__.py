"""Models that can be made on any machine, without a model hub: `es-mpi model NAME --out DIR`."""

from es_mpi.embedded.catalog import NAMES, fingerprint, materialise

__all__ = ["NAMES", "fingerprint", "materialise"]
