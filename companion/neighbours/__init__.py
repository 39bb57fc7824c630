"""Algorithm 1 beside its neighbours: mechanisms, one bench for all, and its figure."""
