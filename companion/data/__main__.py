"""`python -m companion.data [--download]`: say for every data set where it comes from.

Fetch what is missing if allowed.
"""

from __future__ import annotations

import argparse
import sys

from companion.data import DataError, overview


def main(arguments: list[str] | None = None) -> int:
    """Load everything.

    Return 1 when a download was wanted and something is still a stand-in, 2 when a file is damaged.
    """
    parser = argparse.ArgumentParser(prog="python -m companion.data", description=__doc__)
    parser.add_argument(
        "--download",
        action="store_true",
        help="allow the official downloads (MNIST 12 MB, EEG about 900 MB)",
    )
    options = parser.parse_args(arguments)
    try:
        found = overview(options.download)
    except DataError as error:
        print(f"data: {error}", file=sys.stderr)
        return 2
    return 1 if options.download and any(provenance.kind != "real" for provenance in found) else 0


if __name__ == "__main__":
    sys.exit(main())
