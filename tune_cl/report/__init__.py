"""The report of a search: one HTML file, a LaTeX table, or the trials as CSV."""
