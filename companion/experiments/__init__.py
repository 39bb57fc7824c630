"""One file a notebook: validated parameters, shards, results. No plotting."""
