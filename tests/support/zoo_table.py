"""Which kinds of models of tests/support/zoo.py a ranker refuses, for tests and the documentation."""

from __future__ import annotations

RANKERS = ("bert", "bi_encoder")
PADS = "gives a text another score beside longer ones"
NO_PAIRS, NO_CLS = "which reads no pairs", "does not begin a pair with a [CLS] token"
REFUSED = {  # words of the refusal under `bert`, and under `bi_encoder`; None: it is not refused
    "funnel": (PADS, PADS),
    "bert, three labels": ("has 3 labels, not 1 or 2", None),
    "StaticEmbedding with Dense, prompts and a length": (NO_PAIRS, None),
    "model2vec": (NO_PAIRS, None),
    "ColBERT (PyLate)": (None, "is a ColBERT, which gives no vector a text"),
    "SPLADE": (None, "is a SparseEncoder, which gives no vector a text"),
    "gpt2": (NO_CLS, None),
    "Qwen3-Embedding": (NO_CLS, None),
    "T5 encoder, as gtr": (NO_CLS, None),
    "no model at all": ("Should have a `model_type` key",) * 2,
    "custom code": ("contains custom code which must be executed",) * 2,
    "an adapter without its base": ("is neither a folder nor in the cache",) * 2,
}
