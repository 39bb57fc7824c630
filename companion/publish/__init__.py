"""From notebooks to pages: papermill runs, report, comparison, site, environment."""
