"""Pages on which the core runs in a browser: `build` makes the folder, `pages` their numbers."""
