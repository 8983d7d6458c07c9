"""Splits and instances with scores made for a test."""

from tune_cl.testing.data import make_data as make_data
from tune_cl.testing.data import score_of as score_of
from tune_cl.testing.data import scored_of as scored_of
from tune_cl.testing.data import split_of as split_of
