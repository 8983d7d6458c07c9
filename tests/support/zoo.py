"""Folders of small random models of the kinds that people use, made on the spot: encoders, classifiers, language
models, and what sentence-transformers saves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from tests.support.encoder_folders import KINDS, save_encoder
from tests.support.encoder_folders import TEXTS as WORDS
from trainables.rankers.wordpiece import train_wordpiece

QUERY = "what is w1 so"
DOCUMENTS = ["w1 is it", "so w3 said w40 w41, w42", "w9", "it is w1, so what said w17 w17 w2 w90 w91"]
PAIRS = [(QUERY, document) for document in DOCUMENTS]
TEXTS = [*WORDS, *["yes no true false what is it?\n Query: Document: Relevant:"] * 40]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
ROWS = {"num_key_value_heads": 2, "head_dim": 8}
POSITIONS = 160
SPREAD = 0.3  # how far weights lie from those of a new model, so that texts differ

SENTENCE = "sentence_transformers.models."

Make = Callable[[Path], None]


def shaken(model: Any) -> Any:
    """A model none of whose weights is 0 or 1 any more."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(SPREAD * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def save(model: Any, tokenizer: Any, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    transformers.logging.disable_progress_bar()
    shaken(model).to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


# -- tokenizers --------------------------------------------------------------------------------------------------------


def word_pieces(pad: str = "[PAD]", **keys: Any) -> Any:
    """BERT's tokenizer."""
    tokenizer = train_wordpiece(TEXTS, 300)
    names = {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "mask_token": "[MASK]"}
    inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=pad, **names | inputs | keys)


def byte_pairs(ends: bool = False, **keys: Any) -> Any:
    """A language model's tokenizer. `ends`: it adds its end token to each text, as Qwen3-Embedding's does."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<pad>", "<end>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=500, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([*TEXTS, *["yes", "no", "true", "false", "0", "1"] * 60], trainer)
    if ends:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="$A <end>", pair="$A $B <end>", special_tokens=[("<end>", tokenizer.token_to_id("<end>"))]
        )
    names = {"pad_token": "<pad>", "eos_token": "<end>", "bos_token": "<end>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names | keys)


def sentence_pieces() -> Any:
    """T5's tokenizer: a Unigram model, texts behind a mark for a space, `</s>` at the end."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=200, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)]
    )
    document = json.loads(tokenizer.to_str())
    document["model"]["vocab"] += [[f"▁{word}", -1.0] for word in ("true", "false")]
    tokenizer = Tokenizer.from_str(json.dumps(document))
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


# -- models of transformers --------------------------------------------------------------------------------------------


def config_of(kind: str, tokenizer: Any, **fields: Any) -> Any:
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in ("pad", "bos", "eos", "cls", "sep")}
    known = {name: number for name, number in ids.items() if number is not None}
    return getattr(transformers, f"{kind}Config")(vocab_size=len(tokenizer), **known | fields)


def transformer(
    kind: str,
    tokenizer: Callable[[], Any],
    head: str = "AutoModel",
    dtype: torch.dtype = torch.float32,
    **fields: Any,
) -> Make:
    """A model of transformers. `head`: the class that makes it."""

    def make(folder: Path) -> None:
        torch.manual_seed(0)
        made = tokenizer()
        config = config_of(kind, made, **fields)
        cls = getattr(transformers, head)
        save(cls.from_config(config) if head.startswith("Auto") else cls(config), made, folder, dtype)

    return make


def plain(kind: str) -> Make:
    """An encoder of encoder_folders."""

    def make(folder: Path) -> None:
        tokenizer = save_encoder(kind, folder)
        model = transformers.AutoModel.from_pretrained(folder)
        save(model, tokenizer, folder)

    return make


def classifier(kind: str, labels: int = 1, activation: str | None = None, **fields: Any) -> Make:
    """A cross-encoder over an encoder of encoder_folders. `activation`: what its config.json asks for."""

    def make(folder: Path) -> None:
        tokenizer = save_encoder(kind, folder)
        config = transformers.AutoConfig.from_pretrained(folder, num_labels=labels, **fields)
        if activation:
            config.sentence_transformers = {"activation_fn": activation}
        torch.manual_seed(0)
        save(transformers.AutoModelForSequenceClassification.from_config(config), tokenizer, folder)

    return make


# -- models of sentence-transformers -----------------------------------------------------------------------------------


def sentences(encoder: Make, *following: tuple[str, dict[str, Any]], of: dict[str, Any] | None = None, **keys: Any):
    """A SentenceTransformer. `following`: the modules after the encoder, each the name of a class and its arguments;
    `of`: arguments of the encoder's module; `keys`: of the whole."""

    def make(folder: Path) -> None:
        import sentence_transformers

        modules = import_module("sentence_transformers.sentence_transformer.modules")
        encoder(folder / "encoder")
        torch.manual_seed(2)
        first = modules.Transformer(str(folder / "encoder"), **of or {})
        rest = [getattr(modules, name)(**given) for name, given in following]
        whole = sentence_transformers.SentenceTransformer(modules=[first, *rest], device="cpu", **keys)
        whole.save_pretrained(str(folder))

    return make


def token_table(*following: tuple[str, dict[str, Any]], longest: int | None = None, **keys: Any) -> Make:
    """A SentenceTransformer over a table of token vectors. `longest`: tokens of a text, by the tokenizer's own file."""

    def make(folder: Path) -> None:
        import sentence_transformers

        modules = import_module("sentence_transformers.sentence_transformer.modules")
        torch.manual_seed(2)
        tokenizer = train_wordpiece(TEXTS, 300)
        if longest:
            tokenizer.enable_truncation(longest)
        first = modules.StaticEmbedding(tokenizer, embedding_dim=32)
        rest = [getattr(modules, name)(**given) for name, given in following]
        whole = sentence_transformers.SentenceTransformer(modules=[first, *rest], device="cpu", **keys)
        whole.save_pretrained(str(folder))

    return make


def model2vec(folder: Path) -> None:
    """A folder as model2vec writes it: tokens share rows, each with a weight of its own."""
    folder.mkdir(exist_ok=True)
    tokenizer = train_wordpiece(TEXTS, 300)
    tokenizer.save(str(folder / "tokenizer.json"))
    generator = torch.Generator().manual_seed(3)
    count = tokenizer.get_vocab_size()
    tensors = {
        "embeddings": torch.randn(40, 24, generator=generator),
        "mapping": torch.randint(40, (count,), generator=generator),
        "weights": torch.rand(count, generator=generator, dtype=torch.float64),
    }
    save_file(tensors, folder / "model.safetensors")
    config = {"model_type": "model2vec", "architectures": ["StaticModel"], "normalize": True}
    (folder / "config.json").write_text(json.dumps(config))
    parts = [("StaticEmbedding", "."), ("Normalize", "1_Normalize")]
    listed = [{"idx": i, "name": str(i), "path": path, "type": SENTENCE + kind} for i, (kind, path) in enumerate(parts)]
    (folder / "modules.json").write_text(json.dumps(listed))


def cross_encoder(first: Make, activation: str | None = None, **keys: Any) -> Make:
    """A CrossEncoder as sentence-transformers saves it."""

    def make(folder: Path) -> None:
        import sentence_transformers

        first(folder / "encoder")
        function = getattr(torch.nn, activation)() if activation else None
        whole = sentence_transformers.CrossEncoder(
            str(folder / "encoder"), device="cpu", activation_fn=function, **keys
        )
        whole.save_pretrained(str(folder))

    return make


def pooling(mode: Any, size: int = 32, **keys: Any) -> tuple[str, dict[str, Any]]:
    return "Pooling", {"embedding_dimension": size, "pooling_mode": mode, **keys}


def dense(given: int, out: int, **keys: Any) -> tuple[str, dict[str, Any]]:
    return "Dense", {"in_features": given, "out_features": out, **keys}


NORMALIZE: tuple[str, dict[str, Any]] = ("Normalize", {})


def renamed(make: Make, parts: list[tuple[str, str]], **settings: Any) -> Make:
    """A model whose modules.json lists other parts: (class, folder)."""

    def made(folder: Path) -> None:
        make(folder)
        listed = [{"idx": i, "name": str(i), "path": path, "type": kind} for i, (kind, path) in enumerate(parts)]
        (folder / "modules.json").write_text(json.dumps(listed))
        (folder / "config_sentence_transformers.json").write_text(json.dumps(settings))

    return made


def changed(make: Make, name: str, **fields: Any) -> Make:
    """A model with other fields in one of its JSON files."""

    def made(folder: Path) -> None:
        make(folder)
        path = folder / name
        path.write_text(json.dumps((json.loads(path.read_text()) if path.is_file() else {}) | fields))

    return made


def padded_by_unknown() -> Any:
    return word_pieces(pad="[UNK]")


def no_model(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "notes.json").write_text("{}")


def adapter_alone(folder: Path) -> None:
    adapted(BERT, "FEATURE_EXTRACTION", "AutoModel")(folder)
    shutil.rmtree(folder.with_name(f"{folder.name}-base"))


def adapted(base: Make, task: str, automatic: str, **options: Any) -> Make:
    """A folder with a LoRA adapter alone, whose base lies beside it."""

    def make(folder: Path) -> None:
        import peft

        there = folder.with_name(f"{folder.name}-base")
        base(there)
        model = getattr(transformers, automatic).from_pretrained(there, **options)
        adapter = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules="all-linear", task_type=task))
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in adapter.parameters():
                if parameter.requires_grad:
                    parameter.add_(SPREAD * torch.randn(parameter.shape, generator=generator))
        adapter.save_pretrained(folder)
        transformers.AutoTokenizer.from_pretrained(there).save_pretrained(folder)

    return make


CAUSAL: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": ("Qwen3", SIZES | ROWS),
    "llama": ("Llama", SIZES | {"num_key_value_heads": 2}),
    "gpt2": ("GPT2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 300}),
}
OF_PAIRS = (
    "{% set task = messages | selectattr('role', 'eq', 'system') | map(attribute='content') | first %}"
    "<|im_start|>{{ task }}\nQ: {{ messages | selectattr('role', 'eq', 'query') | map(attribute='content') | first }}\n"
    "D: {{ messages | selectattr('role', 'eq', 'document') | map(attribute='content') | first }}<|im_end|>\nso:"
)
GENERAL = (
    "{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('none') }}{% endif %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>model\n{% endif %}"
)


def ending_byte_pairs() -> Any:
    return byte_pairs(ends=True, padding_side="left")


def causal(kind: str, head: str = "AutoModelForCausalLM", dtype: torch.dtype = torch.float32, **fields: Any) -> Make:
    name, sizes = CAUSAL[kind]
    return transformer(name, byte_pairs, head, dtype, **sizes | fields)


def chatting(make: Make, template: str) -> Make:
    def made(folder: Path) -> None:
        make(folder)
        (folder / "chat_template.jinja").write_text(template)

    return made


def answering(make: Make, yes: str, no: str | None) -> Make:
    """A CrossEncoder over a language model that answers with words of its own."""

    def made(folder: Path) -> None:
        import sentence_transformers
        from sentence_transformers.cross_encoder.modules import LogitScore

        modules = import_module("sentence_transformers.base.modules")
        make(folder / "model")
        first = modules.Transformer(str(folder / "model"), transformer_task="text-generation")
        ids = [None if word is None else first.tokenizer.convert_tokens_to_ids(word) for word in (yes, no)]
        whole = sentence_transformers.CrossEncoder(
            modules=[first, LogitScore(*ids)], device="cpu", prompts={"web": "find it"}, default_prompt_name="web"
        )
        whole.save_pretrained(str(folder))

    return made


BERT, SMALL_BERT = plain("bert"), transformer("Bert", word_pieces, **SIZES)
MAKERS: dict[str, Make] = {
    **{kind: plain(kind) for kind in KINDS},
    "bert in bf16": transformer("Bert", word_pieces, dtype=torch.bfloat16, **SIZES),
    "mpnet": transformer("MPNet", padded_by_unknown, **SIZES),
    "big_bird": transformer("BigBird", word_pieces, **SIZES, block_size=4, num_random_blocks=1),
    "funnel": transformer(
        "Funnel", word_pieces, "FunnelModel", block_sizes=[1, 1], d_model=32, n_head=4, d_head=8, d_inner=64
    ),
    "bart": lambda folder: save_encoder("bart", folder) and None,
    # Cross-encoders of transformers.
    **{f"{kind}, one label": classifier(kind) for kind in ("bert", "roberta", "distilbert", "deberta-v3")},
    "electra, two labels": classifier("electra", 2),
    "bert, three labels": classifier("bert", 3),
    "modernbert, mean-pooled": classifier("modernbert", classifier_pooling="mean"),
    # Cross-encoders of sentence-transformers.
    "CrossEncoder with a prompt": cross_encoder(
        classifier("bert"), prompts={"find": "so what: "}, default_prompt_name="find"
    ),
    "CrossEncoder with Identity": cross_encoder(classifier("bert"), "Identity"),
    "CrossEncoder of Pooling and Dense": changed(
        sentences(BERT, pooling("cls"), dense(32, 1, module_output_name="scores")),
        "config_sentence_transformers.json",
        model_type="CrossEncoder",
    ),
    # SentenceTransformers.
    "SentenceTransformer, mean": sentences(BERT, pooling("mean")),
    "SentenceTransformer, weightedmean": sentences(plain("deberta-v3"), pooling("weightedmean"), NORMALIZE),
    "SentenceTransformer, dot, normalised": sentences(
        BERT, pooling("mean"), NORMALIZE, similarity_fn_name="dot", truncate_dim=12
    ),
    "SentenceTransformer with Dense": sentences(BERT, pooling("mean"), dense(32, 16), NORMALIZE),
    "SentenceTransformer with prompts": sentences(
        BERT, pooling("mean"), prompts={"query": "find: ", "document": "text: "}
    ),
    "SentenceTransformer with lengths": sentences(
        BERT, pooling("mean"), of={"query_length": 5, "document_length": 7, "max_seq_length": 44}
    ),
    "StaticEmbedding with Dense, prompts and a length": token_table(
        dense(32, 16), NORMALIZE, longest=40, prompts={"query": "find: ", "document": "text: "}, truncate_dim=12
    ),
    "model2vec": model2vec,
    "ColBERT (PyLate)": renamed(
        BERT, [(f"{SENTENCE}Transformer", ""), ("pylate.models.Dense.Dense", "1_Dense")], model_type="ColBERT"
    ),
    "SPLADE": renamed(
        BERT,
        [
            ("sentence_transformers.sparse_encoder.models.MLMTransformer", ""),
            ("sentence_transformers.sparse_encoder.models.SpladePooling", "1_SpladePooling"),
        ],
        model_type="SparseEncoder",
    ),
    # Language models.
    "llama, one logit": causal("llama", "AutoModelForSequenceClassification", num_labels=1),
    **{kind: causal(kind) for kind in CAUSAL},
    "llama with a chat template": chatting(causal("llama"), GENERAL),
    "CrossEncoder of a language model": answering(chatting(causal("qwen3"), OF_PAIRS), "1", "0"),
    "CrossEncoder of a language model, one word": answering(chatting(causal("qwen3"), OF_PAIRS), "true", None),
    "Qwen3-Embedding": sentences(
        transformer("Qwen3", ending_byte_pairs, **SIZES, **ROWS),
        pooling("lasttoken"),
        NORMALIZE,
        prompts={"query": "Q: "},
    ),
    "T5 encoder, as gtr": sentences(
        transformer("T5", sentence_pieces, "T5EncoderModel", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4),
        pooling("mean"),
        dense(32, 24, bias=False, activation_function=torch.nn.Identity()),
        NORMALIZE,
    ),
    # What is none of these.
    "no model at all": no_model,
    "custom code": changed(
        BERT, "config.json", model_type="mine", auto_map={"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}
    ),
    "an adapter without its base": adapter_alone,
    "an adapter of bert, one label": adapted(BERT, "SEQ_CLS", "AutoModelForSequenceClassification", num_labels=1),
    "an adapter of llama": adapted(causal("llama"), "CAUSAL_LM", "AutoModelForCausalLM"),
}
