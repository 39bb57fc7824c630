"""Notebook 2: what the messages give away, and what can be promised (section 3.2 and Fig. 3)."""
