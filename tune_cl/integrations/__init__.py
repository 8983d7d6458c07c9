"""Rankers of tune_cl as parts of other programs."""
