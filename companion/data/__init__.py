"""Mushrooms, MNIST and EEG: each is found in the same order, and each says where it came from.

See `store`.
"""

from companion.data.store import DataError, Provenance

__all__ = ["DataError", "Provenance"]
