"""What stands for numba where it is not installed: loops run as they are written, to the same bits.

>>> njit(cache=True)(len)([1, 2])
2
"""

prange = range


def njit(**_):
    """Return a decorator that leaves a function as it is."""
    return lambda function: function
