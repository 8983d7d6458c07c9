"""What `import tune_cl` offers. The commands of `tune_cl.cli` read their options and call these functions."""
