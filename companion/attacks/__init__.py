"""What an eavesdropper learns: from messages to gradients (`eavesdropper`), from gradients to data
(`inversion`)."""
