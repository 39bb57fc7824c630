"""Other processors, as far as one processor can play them.

The variables cap the instructions that torch (ATen, oneDNN, MKL), numpy, OpenBLAS and numba may
use. Sums are then taken in another order, and the last bits differ as they do on another machine.
What they cannot play: instructions that this processor does not have, and MKL's own choice on
processors that are not Intel's (it ignores MKL_ENABLE_INSTRUCTIONS there, mostly).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

NATIVE = "native"
VARIABLES = {
    NATIVE: {},
    "sse": {
        "ATEN_CPU_CAPABILITY": "default",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_CPU_NAME": "generic",
    },
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "avx512": {
        "ATEN_CPU_CAPABILITY": "avx512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "OPENBLAS_CORETYPE": "SkylakeX",
    },
    "compatible": {"MKL_CBWR": "COMPATIBLE", "OPENBLAS_CORETYPE": "Prescott"},
}
NUMPY_KEEPS = {"sse": (), "compatible": (), "avx2": ("X86_V3", "AVX2", "FMA3")}  # of what it finds
# as Linux names instructions
NEEDED = {"sse": "sse4_2", "avx2": "avx2", "avx512": "avx512f", "compatible": "sse4_2"}


def flags(description: Path = Path("/proc/cpuinfo")) -> frozenset[str] | None:
    """Return the instructions that this processor has, by Linux's names; None if it says none."""
    if not description.exists():
        return None
    lines = description.read_text(encoding="utf-8", errors="replace").splitlines()
    named = (line for line in lines if line.startswith(("flags", "Features")))
    return frozenset(next(named, "").partition(":")[2].split())


def missing(name: str, known: frozenset[str] | None) -> str:
    """Return why this processor cannot be played here, or nothing when it can."""
    if name == NATIVE:
        return ""
    if known is None:
        return "this system does not say what its processor can"
    return "" if NEEDED[name] in known else f"this processor has no {NEEDED[name]}"


def playable() -> list[str]:
    """Return the processors other than the native one that can be played here."""
    known = flags()
    return [name for name in VARIABLES if name != NATIVE and not missing(name, known)]


def variables(name: str, cache: Path) -> dict[str, str]:
    """Return the environment that plays a processor, with compiled code of its own for numba."""
    chosen = {**VARIABLES[name], "NUMBA_CACHE_DIR": str(cache / "numba" / name)}
    # numpy only warns of names that it does not know, so it is asked for its own
    if name in NUMPY_KEEPS:
        found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
        chosen["NPY_DISABLE_CPU_FEATURES"] = " ".join(set(found) - set(NUMPY_KEEPS[name]))
    return chosen
