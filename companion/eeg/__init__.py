"""Notebook 4: five agents learn from brain waves; whose they are is to stay unknown (section 4.3)."""
