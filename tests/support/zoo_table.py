"""What each ranker makes of each kind of model in `zoo`: the table of docs/reference/rankers.md, to which
tests/test_zoo.py holds the code."""

from __future__ import annotations

RANKERS = ("bert", "bi_encoder", "decoder")
EQUAL = "equal"  # untrained (where it can score so), trained, and saved for other libraries
OWN = "equal, own form"  # trained, and saved in tune_cl's own form, which other libraries do not read
NEW = "equal, new head"  # likewise, but only the encoder of the folder is used
# Everything else is refused, by an error with these words.
ENCODER = "whose tokens read later ones"
LANGUAGE = "is a decoder"
PADS = "gives a text another score beside longer ones"
BARE = "has no language model's layer"

_READS = (EQUAL, EQUAL, ENCODER)
_OWN = (OWN, EQUAL, ENCODER)
_PADS = (PADS, PADS, PADS)
_SENTENCES = (NEW, EQUAL, ENCODER)
_TABLE = ("reads no pairs", EQUAL, "reads no pairs")
_LANGUAGE = (LANGUAGE, EQUAL, EQUAL)


def _refused(what: str, decoder: str = "") -> tuple[str, str, str]:
    """A SentenceTransformer whose vectors are not computed here: its encoder alone may begin a `bert`."""
    return NEW, what, decoder or what


TABLE: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(("bert", "electra", "distilbert", "roberta", "modernbert", "albert", "deberta-v3"), _READS),
    **dict.fromkeys(("bert in bf16", "deberta-v2 with a convolution"), _READS),
    **dict.fromkeys(("mpnet", "nomic_bert", "gte", "big_bird"), _OWN),
    "funnel": _PADS,
    "bart": ("is not an encoder", "is not an encoder", ENCODER),
    **dict.fromkeys((f"{kind}, one label" for kind in ("bert", "roberta", "distilbert", "deberta-v3")), _READS),
    **dict.fromkeys(("modernbert, mean-pooled", "electra, two labels", "mpnet, one label"), _READS),
    "bert, three labels": (NEW, EQUAL, ENCODER),
    **dict.fromkeys(("nomic_bert, two labels", "bert, one label, in bf16"), _READS),
    **dict.fromkeys(("CrossEncoder with a prompt", "CrossEncoder with Identity"), _READS),
    "CrossEncoder with Softplus": (NEW, EQUAL, ENCODER),
    "CrossEncoder of Pooling and Dense": _refused("is a CrossEncoder made of Transformer, Pooling, Dense"),
    **dict.fromkeys((f"SentenceTransformer, {how}" for how in ("mean", "weightedmean")), _SENTENCES),
    "SentenceTransformer, dot, normalised": _SENTENCES,
    "SentenceTransformer, mean and max": _refused("pools by mean and max"),
    **dict.fromkeys((f"SentenceTransformer with {what}" for what in ("Dense", "prompts")), _SENTENCES),
    **dict.fromkeys((f"SentenceTransformer with {what}" for what in ("lengths", "do_lower_case")), _SENTENCES),
    "SentenceTransformer with LSTM": _refused("is made of Transformer, LSTM, Pooling"),
    **dict.fromkeys(("StaticEmbedding with Dense, prompts and a length", "model2vec"), _TABLE),
    "ColBERT (PyLate)": _refused("is a late-interaction model (ColBERT)"),
    "SPLADE": _refused("is a sparse encoder (SPLADE)"),
    **dict.fromkeys(("llama, one logit", "qwen2", "qwen3", "llama", "gpt2"), _LANGUAGE),
    "phi": (LANGUAGE, EQUAL, OWN),
    "gemma2": (LANGUAGE, EQUAL, "does more to its words' logits than one layer"),
    "llama with a chat template": _LANGUAGE,
    **dict.fromkeys(("CrossEncoder of a language model", "CrossEncoder of a language model, one word"), _LANGUAGE),
    **dict.fromkeys(("Qwen3-Embedding", "EmbeddingGemma"), (LANGUAGE, EQUAL, BARE)),
    "T5 encoder, as gtr": ("has no fast tokenizer with a [CLS]", EQUAL, ENCODER),
    "monoT5": (EQUAL, EQUAL, ENCODER),
    "no model at all": ("cannot be loaded",) * 3,
    "custom code": ("no model can be made",) * 3,
    "an adapter without its base": ("is neither a folder nor in the cache",) * 3,
    "an adapter of bert, one label": _READS,
    "an adapter of llama": _LANGUAGE,
}
