"""Every neural ranker, in test size."""

from __future__ import annotations

from trainables.rankers import RANKERS

SMALL = {
    "bert": {"vocabulary_size": 300},
    "bi_encoder": {"vocabulary_size": 300},
    "bidaf_t": {"vector_size": 20, "hidden": 16},
    "conv_knrm": {"vector_size": 20, "filters": 16},
    "drmm_tks": {"vector_size": 20},
    "knrm": {"vector_size": 20},
    "match_pyramid": {"vector_size": 20, "filters": 16, "dropout": 0.1},
}


NETWORKS = [name for name in sorted(RANKERS) if RANKERS[name].reads == "texts"]


VARIANTS = {
    "bert, classification": {"name": "bert", "head": "classification"},
    "bi_encoder, cls": {"name": "bi_encoder", "pooling": "cls"},
    "bidaf_t, study": {"name": "bidaf_t", "reference": "study"},
    "conv_knrm + first stage": {"name": "conv_knrm", "add_first_stage": True},
    "drmm_tks, study": {"name": "drmm_tks", "reference": "study", "dropout": 0.1},
    "knrm + first stage": {"name": "knrm", "add_first_stage": True, "kernels_learned": True},
    "match_pyramid, average": {"name": "match_pyramid", "pooling": "average"},
}


CASES = {
    **{name: {"name": name} for name in NETWORKS},
    **VARIANTS,
    "bert, passages": {"name": "bert", "passages": "average"},
    "bert, checkpointing": {"name": "bert", "checkpointing": True},
    "knrm, vectors": {"name": "knrm", "train_vectors": True},
}
