"""What is called otherwise in other trainers (transformers, sentence-transformers, FlagEmbedding, Tevatron, peft): the
one table of their names and of what stands for each here."""

from __future__ import annotations

_IN_BATCH = "softmax, with training.in_batch_negatives: true (ranker bi_encoder)"
_STEPS = "training.batches_per_iteration: optimiser steps between two evaluations on dev, each of which is saved"
_ACCUMULATION = (
    "training.batch_size is that of a whole step; training.micro_batch: samples through the ranker at a time"
)
_HALF = "training.precision: bf16 or fp32 (fp16 is not trained in)"
_RISE = "training.warmup: the fraction of all steps in which the rate rises"
_LISTS = "training.negatives: N negatives for each positive; a loss of lists reads a positive and N negatives"

FOREIGN: dict[str, str] = {  # in lower case -> the last part of our key, or a sentence on the value or key that does it
    # keys
    "learning_rate": "lr",
    **dict.fromkeys(("epochs", "num_epochs", "max_epochs", "num_train_epochs"), "max_iterations"),
    "max_steps": "training.max_iterations, of training.batches_per_iteration optimiser steps each",
    **dict.fromkeys(("per_device_train_batch_size", "train_batch_size"), "batch_size"),
    **dict.fromkeys(("gradient_accumulation_steps", "accumulate_grad_batches", "mini_batch_size"), _ACCUMULATION),
    **dict.fromkeys(("per_device_eval_batch_size", "eval_batch_size"), "left out; scoring sizes its batches itself"),
    **dict.fromkeys(("eval_steps", "save_steps", "logging_steps", "eval_strategy", "evaluation_steps"), _STEPS),
    **dict.fromkeys(("fp16", "bf16", "use_amp", "half", "mixed_precision", "torch_dtype", "16-mixed"), _HALF),
    **dict.fromkeys(("warmup_ratio", "warmup_steps", "num_warmup_steps"), _RISE),
    **dict.fromkeys(("lr_scheduler_type", "lr_scheduler", "scheduler_type"), "training.schedule"),
    **dict.fromkeys(("linear_with_warmup", "warmuplinear"), "linear, with training.warmup"),
    **dict.fromkeys(("cosine_with_warmup", "warmupcosine", "cosine_annealing"), "cosine, with training.warmup"),
    "constant_with_warmup": "constant, with training.warmup",
    **dict.fromkeys(("max_grad_norm", "gradient_clip_val", "clip_grad_norm"), "clip"),
    "gradient_checkpointing": "checkpointing",
    **dict.fromkeys(("max_seq_length", "max_seq_len", "passage_max_len", "passage_max_length"), "max_length"),
    **dict.fromkeys(("query_max_len", "query_max_length", "max_query_len"), "query_length"),
    **dict.fromkeys(("model_name_or_path", "model_name", "pretrained_model_name_or_path"), "ranker.model"),
    **dict.fromkeys(("pooling_mode", "pooling_method", "sentence_pooling_method"), "ranker.pooling"),
    "normalize_embeddings": "ranker.similarity: cosine",
    **dict.fromkeys(("matryoshka_dims", "matryoshkaloss"), "ranker.dimensions: a list trains the loss at each"),
    **dict.fromkeys(("num_negatives", "train_group_size", "train_n_passages", "num_hard_negatives"), _LISTS),
    "label_smoothing_factor": "label_smoothing",
    **dict.fromkeys(("early_stopping_patience", "early_stopping"), "patience"),
    "load_best_model_at_end": "left out; the weights of the best iteration on dev are saved",
    "metric_for_best_model": "metric",
    **dict.fromkeys(("lora_r", "lora_rank"), "ranker.lora.rank"),
    "lora_alpha": "ranker.lora.alpha",
    **dict.fromkeys(("target_modules", "lora_target_modules"), "ranker.lora.targets"),
    **dict.fromkeys(("freeze_layers", "freeze_embeddings", "num_frozen_layers"), "ranker.freeze"),
    **dict.fromkeys(("optim", "optimizer"), "left out; AdamW, with training.lr and training.weight_decay"),
    "num_samples": "trials",
    "n_trials": "trials",
    "pace": "pacing",
    # losses
    **dict.fromkeys(("multiplenegativesrankingloss", "mnrl", "infonce", "infonceloss", "ntxent", "nt_xent"), _IN_BATCH),
    **dict.fromkeys(("contrastive", "contrastiveloss", "in_batch"), _IN_BATCH),
    "cachedmultiplenegativesrankingloss": f"{_IN_BATCH} and training.micro_batch: N",
    **dict.fromkeys(
        ("bce", "bceloss", "bcewithlogitsloss", "binarycrossentropyloss", "binary_crossentropy"), "pointwise"
    ),
    **dict.fromkeys(("tripletloss", "triplet", "marginrankingloss", "margin_ranking"), "hinge, with training.margin"),
    **dict.fromkeys(("cosinesimilarityloss", "mseloss"), "mse"),
    "marginmseloss": "margin_mse",
    **dict.fromkeys(("distillkldivloss", "kldivloss", "kl_div"), "distill_kl"),
    **dict.fromkeys(("crossentropyloss", "ce"), "cross_entropy"),
    **dict.fromkeys(("localized_contrastive", "lce", "listwise_softmax"), "softmax"),
    **{f"{name}loss": name for name in ("lambdaloss", "listnet", "ranknet")},
}


def meant(name: str) -> str | None:
    """What is called otherwise here: the last part of a key, or a sentence; None for a name of no other trainer."""
    return FOREIGN.get(name.lower())


def meant_key(key: str) -> str | None:
    """Advice for a dotted key whose last part is a name of other trainers for no single key of ours."""
    advice = meant(key.rpartition(".")[2])
    return advice if advice and " " in advice else None


def by_our_name(key: str) -> str:
    """A dotted key with our name for its last part."""
    section, dot, last = key.rpartition(".")
    named = meant(last)
    if named is None or " " in named:
        return key
    return named if "." in named else f"{section}{dot}{named}"
