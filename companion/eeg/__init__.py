"""Notebook 4: five agents learn from brain waves.

Whose they are is to stay hidden (section 4.3).
"""
