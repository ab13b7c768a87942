"""When a state merges, rewrites and splits its files: shares of the base, so that a fact costs as much in a large state."""

from __future__ import annotations

from dataclasses import dataclass

_RUN_DIGITS = ((50_000, 0), (200_000, 3), (800_000, 4), (2_000_000, 6), (10_000_000, 7), (100_000_000, 8))
_MOST_RUN_DIGITS, _DIGITS_OF_UNKNOWN = 11, 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes that decide what a run does.

    Attributes:
        rebase_share: The share of the base's bytes at which runs make a new base: a merge would touch most of the buckets.
        merge_share: The share of the base's bytes at which runs are merged.
        at_once_share: The share of the base's rows at which new facts are merged without a run in between.
        most_runs: The most runs that a lookup of one key may meet before they become one.
        worn_share: The share of a group's rows, hidden or added by merges, at which its buckets are rewritten.
        bytes_per_merged: The most bytes that are rewritten for each byte that was merged; one group is always allowed.
        bucket_bytes: The bytes of a bucket of a small base.
        most_small_digits: So many binary digits split a base before its buckets become larger.
        large_bucket_bytes: The bytes of a bucket of a large base.
        run_digits: (facts, digits): a run of up to so many facts is split into files by so many digits.
    """

    rebase_share: float = 0.25
    merge_share: float = 0.01
    at_once_share: float = 0.02
    most_runs: int = 8
    worn_share: float = 0.08
    bytes_per_merged: int = 32
    bucket_bytes: int = 3 << 19
    most_small_digits: int = 6
    large_bucket_bytes: int = 128 << 20
    run_digits: tuple[tuple[int, int], ...] = _RUN_DIGITS

    def digits_of_base(self, size: int) -> int:
        """Return how many digits split a base of `size` bytes into buckets, of which a lookup of one key reads one.

        >>> [Sizes().digits_of_base(size << 20) for size in (1, 100, 400, 4_000, 40_000)]
        [0, 6, 6, 6, 8]
        """
        small = min(self.most_small_digits, _halvings(size, self.bucket_bytes))
        return max(small, _halvings(size, self.large_bucket_bytes))

    def digits_of_run(self, rows: int | None) -> int:
        """Return how many digits split a run of so many facts into files; None: an unknown number."""
        if rows is None:
            return _DIGITS_OF_UNKNOWN
        return next((digits for most, digits in self.run_digits if rows <= most), _MOST_RUN_DIGITS)


def _halvings(size: int, bucket: int) -> int:
    return max(0, (size // bucket).bit_length() - 1)


SIZES = Sizes()
"""The sizes in use; read at each run."""
