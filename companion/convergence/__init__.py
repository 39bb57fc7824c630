"""Notebook 1: Algorithm 1 learns to tell mushrooms apart (section 4.1 of the paper)."""
