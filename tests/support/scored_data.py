"""Splits and instances with scores made for a test."""

from tune_cl.testing.scored_data import make_data as make_data
from tune_cl.testing.scored_data import score_of as score_of
from tune_cl.testing.scored_data import scored_of as scored_of
from tune_cl.testing.scored_data import split_of as split_of
