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
    **dict.fromkeys(
        ("bert", "electra", "distilbert", "roberta", "xlm-roberta", "camembert", "modernbert", "albert", "deberta-v2"),
        _READS,
    ),
    **dict.fromkeys(("deberta-v3", "bert in bf16", "bert in fp16", "bert with pruned_heads: {}"), _READS),
    "deberta-v2 with a convolution": _READS,
    **dict.fromkeys(("deberta", "mpnet", "nomic_bert", "eurobert", "gte", "jina_embeddings_v3", "big_bird"), _OWN),
    **dict.fromkeys(("squeezebert", "longformer", "roformer", "ernie", "rembert", "megatron-bert"), _OWN),
    **dict.fromkeys(("funnel", "convbert", "fnet", "nystromformer"), _PADS),
    "bart": ("is not an encoder", "is not an encoder", ENCODER),
    **dict.fromkeys((f"{kind}, one label" for kind in ("bert", "roberta", "distilbert", "deberta-v3")), _READS),
    **dict.fromkeys(("modernbert, one label", "modernbert, mean-pooled", "electra, two labels"), _READS),
    "bert, three labels": (NEW, EQUAL, ENCODER),
    **dict.fromkeys((f"{kind}, one label" for kind in ("mpnet", "eurobert", "gte")), _READS),
    "nomic_bert, two labels": _READS,
    "bert, one label, in bf16": _READS,
    **dict.fromkeys(("CrossEncoder", "CrossEncoder with a prompt"), _READS),
    **dict.fromkeys(("CrossEncoder with Identity", "CrossEncoder with Tanh"), _READS),
    "CrossEncoder with Softplus": (NEW, EQUAL, ENCODER),
    "CrossEncoder of Pooling and Dense": _refused("is a CrossEncoder made of Transformer, Pooling, Dense"),
    **dict.fromkeys((f"SentenceTransformer, {how}" for how in ("mean", "cls", "max", "lasttoken")), _SENTENCES),
    **dict.fromkeys(("SentenceTransformer, weightedmean", "SentenceTransformer, dot"), _SENTENCES),
    "SentenceTransformer, dot, normalised": _SENTENCES,
    "SentenceTransformer, mean_sqrt_len_tokens": _refused("pools by mean_sqrt_len_tokens"),
    "SentenceTransformer, mean and max": _refused("pools by mean and max"),
    "SentenceTransformer, euclidean": _refused("compares by 'euclidean'"),
    **dict.fromkeys((f"SentenceTransformer with {what}" for what in ("Dense", "truncate_dim", "prompts")), _SENTENCES),
    **dict.fromkeys((f"SentenceTransformer with {what}" for what in ("lengths", "do_lower_case")), _SENTENCES),
    "SentenceTransformer without its prompts": _refused("pools without its prompts"),
    "SentenceTransformer with LSTM": _refused("is made of Transformer, LSTM, Pooling"),
    **dict.fromkeys(("StaticEmbedding", "StaticEmbedding with Dense, prompts and a length"), _TABLE),
    **dict.fromkeys(("StaticEmbedding, dot", "model2vec"), _TABLE),
    "ColBERT (PyLate)": _refused("is a late-interaction model (ColBERT)"),
    "SPLADE": _refused("is a sparse encoder (SPLADE)"),
    **dict.fromkeys(("llama, one logit", "qwen2", "qwen3", "llama", "mistral", "gemma"), _LANGUAGE),
    **dict.fromkeys(("phi3", "smollm3", "gpt_neox", "opt", "llama in bf16"), _LANGUAGE),
    **dict.fromkeys(("gpt2, one logit", "gpt2"), _LANGUAGE),
    "phi": (LANGUAGE, EQUAL, OWN),
    "gemma2": (LANGUAGE, EQUAL, "does more to its words' logits than one layer"),
    **dict.fromkeys(("llama with a chat template", "llama with a template of pairs"), _LANGUAGE),
    "llama with Llama 2's tokenizer": _LANGUAGE,
    **dict.fromkeys(("CrossEncoder of a language model", "CrossEncoder of a language model, one word"), _LANGUAGE),
    **dict.fromkeys(("Qwen3-Embedding", "EmbeddingGemma"), (LANGUAGE, EQUAL, BARE)),
    "T5 encoder, as gtr": ("has no fast tokenizer with a [CLS]", EQUAL, ENCODER),
    "T5 encoder, pooled by a [CLS] that it lacks": (*("has no fast tokenizer with a [CLS]",) * 2, ENCODER),
    "monoT5": (EQUAL, EQUAL, ENCODER),
    "no model at all": ("cannot be loaded",) * 3,
    "custom code": ("no model can be made",) * 3,
    "an adapter without its base": ("is neither a folder nor in the cache",) * 3,
    **dict.fromkeys(("an adapter of bert", "an adapter of bert, one label"), _READS),
    "an adapter of llama": _LANGUAGE,
}
