"""Notebook 3: five agents learn digits, and an eavesdropper tries to see them (section 4.2)."""
