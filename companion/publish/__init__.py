"""From notebooks to pages: papermill runs, the report, the comparison with a reference, the environment."""
