"""Benchmarks: one file a question.

Each prints ratios measured in one run; `main(quick)` returns them.
"""
