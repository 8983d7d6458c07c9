"""What the folder or hub name of a model is, read from its JSON files: the one reading that training, re-ranking and
`load_ranker` share. Neither PyTorch nor transformers is needed.

The files are those of transformers (config.json), and of sentence-transformers where it saved the model: modules.json
lists the parts, each with a folder of its own; `SETTINGS` has prompts, similarity and activation, `CUT` the lengths of
texts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import read_text
from trainables.rankers.hub import ADAPTER, file_of, unusable
from trainables.rankers.settings import TINY, BiEncoderSettings, Pooling, RankerSettings, Similarity

CONFIG, MODULES, SETTINGS = "config.json", "modules.json", "config_sentence_transformers.json"
WRITERS = ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
CUT = tuple(f"sentence_{kind}_config.json" for kind in WRITERS)  # of which versions of today write the first
TOKENIZER_CONFIG, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"
OURS = "tune_cl"  # the key of config.json for what only tune_cl reads
DENSE, STATIC = "Dense", "StaticEmbedding"
MODEL2VEC = "model2vec"  # the model_type of its folders, whose modules.json came later
POOLED = {  # of the form of earlier versions, a key for each
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
}
LAYER_KEYS = (
    "in_features",
    "out_features",
    "bias",
    "activation_function",
    "use_residual",
    "module_input_name",
    "module_output_name",
)
ACTIVATIONS = ("Identity", "Sigmoid", "Tanh")  # which sentence-transformers may put on a cross-encoder's logit
TASKS = {"text-generation": "decoder", "sequence-classification": "classifier", "feature-extraction": "sentences"}
PARTS = "Transformer, Pooling and possibly Dense and Normalize, or a StaticEmbedding"
Kind = Literal["encoder", "classifier", "decoder", "seq2seq", "sentences", "other"]


@dataclass(frozen=True)
class Sentences:
    """What a SentenceTransformer makes of an encoder's vectors.

    similarity  of two vectors; None: the folder names none
    normalised  whether vectors are brought to unit length before they are cut
    lengths     tokens of a query and of a document; None: `max_length`, and there: all that the encoder reads
    prompts     what stands before a query, and before a document
    dimensions  the first ones of a vector that are compared; None: all
    lower       whether texts are brought to lower case, whatever the tokenizer does
    dense       configurations of the dense layers after pooling, and `layers` their folders
    table       folder of the table of tokens' vectors that stands in place of an encoder; None: there is an encoder
    """

    pooling: Pooling
    similarity: Similarity | None = None
    normalised: bool = False
    max_length: int | None = None
    lengths: tuple[int | None, int | None] = (None, None)
    prompts: tuple[str, str] = ("", "")
    dimensions: int | None = None
    lower: bool = False
    dense: tuple[Mapping[str, Any], ...] = ()
    layers: tuple[str, ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class ModelFolder:
    """A folder or hub name.

    model       its name
    at          where the files of transformers are: a folder within it, or `model`
    kind        what it is; "other": a model of sentence-transformers that no ranker computes, which `what` describes
    config      its config.json
    activation  what sentence-transformers puts on the logit of a cross-encoder: one of ACTIVATIONS, or another's name
    prompt      what it puts before the query of each pair, or tells a language model
    words       ids of a language model's tokens whose logits are compared: of yes, and of no if that one counts
    template    the chat template of its tokenizer, which may know `tokens`, such as bos_token
    """

    model: str
    at: str
    kind: Kind
    config: Mapping[str, Any]
    sentences: Sentences | None = None
    activation: str = "Sigmoid"
    prompt: str = ""
    words: tuple[int, int | None] | None = None
    what: str = ""
    template: str = ""
    tokens: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> bool:
        """Whether tune_cl saved it."""
        return OURS in self.config

    @property
    def model_type(self) -> str:
        return str(self.config.get("model_type"))


class _Other(Exception):
    """What a model of sentence-transformers is or does that no ranker computes."""


def read_folder(model: str) -> ModelFolder:
    """Raises ConfigError for files that cannot be read."""
    modules = _modules(model) or []
    at = _whole(_place(model, *modules[0]) if modules else model)
    config = {} if model == TINY else _mapping(at, CONFIG)
    if not modules and config.get("model_type") == MODEL2VEC:
        modules = [(STATIC, ""), *([("Normalize", "")] if config.get("normalize") else [])]
    kinds = [kind for kind, _ in modules]
    try:
        if "Pooling" in kinds or STATIC in kinds:
            return _with_pooling(model, at, config, modules)
        if modules:
            return _without_pooling(model, at, config, modules)
    except _Other as error:
        return ModelFolder(model, at, "other", config, what=str(error))
    return _with_chat(ModelFolder(model, at, _kind_of(config), config, activation=_activation(config, {})))


def _with_chat(folder: ModelFolder) -> ModelFolder:
    """With the chat template, of a language model or a classifier, which alone read it."""
    tokenizer = _mapping(folder.at, TOKENIZER_CONFIG)
    file = file_of(folder.at, TEMPLATE)
    template: Any = read_text(file) if file else tokenizer.get("chat_template") or ""
    if isinstance(template, list):  # several by name
        template = {str(one.get("name")): one.get("template") for one in template}.get("default")
    texts = {key: tokenizer.get(key) for key in ("bos_token", "eos_token", "pad_token", "unk_token")}
    tokens = {key: value.get("content") if isinstance(value, Mapping) else value for key, value in texts.items()}
    named = {key: value for key, value in tokens.items() if isinstance(value, str)}
    return replace(folder, template=template if isinstance(template, str) else "", tokens=named)


def require_known(folder: ModelFolder) -> ModelFolder:
    """The folder. Raises ConfigError if no ranker computes what it holds."""
    if folder.kind == "other":
        raise unusable(folder.model, folder.what, PARTS)
    return folder


def require_reads_pairs(folder: ModelFolder) -> ModelFolder:
    """The folder. Raises ConfigError if there is no Transformer in it, which could read query and document at once."""
    if folder.sentences is not None and folder.sentences.table is not None:
        wrong = f"is a table of token vectors ({STATIC}), which reads no pairs"
        raise unusable(folder.model, wrong, "a Transformer, or ranker.name: bi_encoder")
    return folder


def usual_temperature(settings: RankerSettings) -> float:
    """Default of training.temperature with loss softmax; for vectors whose similarity the model's folder decides, its
    own."""
    if isinstance(settings, BiEncoderSettings) and settings.similarity is None:
        form = read_folder(settings.model).sentences
        return BiEncoderSettings(similarity=(form and form.similarity) or "cosine").temperature  # pyright: ignore[reportCallIssue]
    return settings.temperature


def _kind_of(config: Mapping[str, Any]) -> Kind:
    """What a config.json of transformers describes, by the class that wrote it."""
    names = [str(name) for name in config.get("architectures") or []]
    if any(name.endswith("ForSequenceClassification") for name in names):
        return "classifier"
    if any(name.endswith("ForConditionalGeneration") for name in names) and config.get("is_encoder_decoder"):
        return "seq2seq"
    return "decoder" if any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in names) else "encoder"


def _with_pooling(model: str, at: str, config: Mapping[str, Any], modules: list[tuple[str, str]]) -> ModelFolder:
    names, settings = [kind for kind, _ in modules], _mapping(model, SETTINGS)
    if (declared := settings.get("model_type")) not in (None, "SentenceTransformer"):
        raise _Other(f"is a {declared} made of {', '.join(names)}")
    static = names[0] == STATIC
    normalised = names[-1] == "Normalize"
    first = names[:1] if static else names[:2]
    between = names[len(first) : len(names) - normalised]
    if first not in (["Transformer", "Pooling"], [STATIC]) or set(between) - {DENSE}:
        raise _Other(f"is made of {', '.join(names)}")
    cut = {} if static else _cut(at)
    _require_texts(cut)
    prompts = _prompt(settings, ("query",)), _prompt(settings, ("document", "passage", "corpus"))
    pooling = "mean" if static else _pooling(model, modules[1][1], any(prompts))
    dense = [path for kind, path in modules if kind == DENSE]
    configs = [_mapping(model, f"{path}/{CONFIG}") for path in dense]
    sentences = Sentences(
        pooling,
        _similarity(settings),
        normalised,
        cut.get("max_seq_length"),
        (cut.get("query_length"), cut.get("document_length")),
        prompts,
        settings.get("truncate_dim"),
        bool(cut.get("do_lower_case")),
        tuple({key: config[key] for key in LAYER_KEYS if key in config} for config in configs),
        tuple(dense),
        modules[0][1] if static else None,
    )
    return ModelFolder(model, at, "sentences", config, sentences)


def _without_pooling(model: str, at: str, config: Mapping[str, Any], modules: list[tuple[str, str]]) -> ModelFolder:
    """A cross-encoder as sentence-transformers saves it, or a model that compares more than one vector a text."""
    names, settings = [kind for kind, _ in modules], _mapping(model, SETTINGS)
    task = TASKS.get(str(_cut(at).get("transformer_task", "feature-extraction")))
    activation = _activation(config, settings)
    prompt = _default_prompt(settings)
    if names == ["Transformer"] and task == "classifier":
        return _with_chat(ModelFolder(model, at, "classifier", config, activation=activation, prompt=prompt))
    if names == ["Transformer", "LogitScore"] and task == "decoder":
        scored = _mapping(model, f"{modules[1][1]}/{CONFIG}")
        words = scored.get("true_token_id"), scored.get("false_token_id")
        return _with_chat(ModelFolder(model, at, "decoder", config, None, activation, prompt, words))  # pyright: ignore[reportArgumentType]
    late = settings.get("model_type") in ("ColBERT", "MultiVectorEncoder")
    sparse = any("Splade" in name or "Sparse" in name for name in names) or "MLMTransformer" in names
    if late or names == ["Transformer", DENSE]:
        raise _Other("is a late-interaction model (ColBERT), which compares every token's vector")
    if sparse:
        raise _Other("is a sparse encoder (SPLADE), which weighs the vocabulary's words")
    raise _Other(f"is made of {', '.join(names)}")


def _pooling(model: str, path: str, prompted: bool) -> Pooling:
    pooling = _mapping(model, f"{path}/{CONFIG}")
    named = pooling.get("pooling_mode") or [name for name, key in POOLED.items() if pooling.get(key)] or "mean"
    modes = [named] if isinstance(named, str) else list(named)
    if len(modes) != 1 or modes[0] not in get_args(Pooling):
        raise _Other(f"pools by {' and '.join(map(str, modes))[:80]}")
    if prompted and pooling.get("include_prompt") is False:
        raise _Other("pools without its prompts (include_prompt)")
    return cast(Pooling, modes[0])


def _similarity(settings: Mapping[str, Any]) -> Similarity | None:
    similarity = settings.get("similarity_fn_name")
    if similarity not in (None, *get_args(Similarity)):
        raise _Other(f"compares by {str(similarity)[:80]!r}")
    return similarity


def _activation(config: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    ours = config.get("sentence_transformers")
    ours = ours if isinstance(ours, Mapping) else {}
    name = settings.get("activation_fn") or ours.get("activation_fn")
    name = str(name or config.get("sbert_ce_default_activation_function") or "torch.nn.Sigmoid")
    last = name.rpartition(".")[2]
    return last if name.startswith("torch.nn.") and last in ACTIVATIONS else name


def require_activation(folder: ModelFolder) -> str:
    """What users see of a cross-encoder's logits, one of ACTIVATIONS. Raises ConfigError for another function."""
    if folder.activation not in ACTIVATIONS:
        right = f"{', '.join(ACTIVATIONS[:-1])} or {ACTIVATIONS[-1]} of torch.nn in its {CONFIG} or {SETTINGS}"
        raise unusable(folder.model, f"asks for the activation {folder.activation[:80]!r}", right)
    return folder.activation


def _require_texts(cut: Mapping[str, Any]) -> None:
    """Refuses an encoder's module that does more than read texts, in a way that changes vectors."""
    if "message" in (cut.get("modality_config") or {}):
        raise _Other("reads its texts as messages of a chat")
    if cut.get("query_expansion"):
        raise _Other("expands its queries (query_expansion)")
    if (output := cut.get("module_output_name") or "token_embeddings") != "token_embeddings":
        raise _Other(f"gives {str(output)[:80]!r} in place of its tokens' vectors")


def _prompt(settings: Mapping[str, Any], names: Sequence[str]) -> str:
    """The prompt by the first of the names that is there, or the default one, as `encode_query` and `encode_document`
    of sentence-transformers choose it."""
    prompts = settings.get("prompts") or {}
    return next((prompts[name] for name in (*names, settings.get("default_prompt_name")) if name in prompts), "") or ""


def _default_prompt(settings: Mapping[str, Any]) -> str:
    return (settings.get("prompts") or {}).get(settings.get("default_prompt_name")) or ""


def _cut(at: str) -> Mapping[str, Any]:
    """The configuration of the encoder's module, under the name of whichever version wrote it."""
    return next((found for name in CUT if (found := _mapping(at, name))), {})


def _place(model: str, kind: str, path: str) -> str:
    """Where the first part of a SentenceTransformer is; of a table on the hub, its repository."""
    if path in ("", ".") or (kind == STATIC and not Path(model).is_dir()):
        return model
    folder = Path(model, path)
    if not folder.resolve().is_relative_to(Path(model).resolve()) or not folder.is_dir():
        raise unusable(model, f"has its encoder at {path[:80]!r}", "an encoder in the folder itself")
    return str(folder)


def _whole(at: str) -> str:
    """Where the weights of a whole model are: of a LoRA adapter, those of its base with the adapter merged."""
    if at == TINY or file_of(at, ADAPTER) is None:
        return at
    from trainables.rankers.merged import merged_folder  # here: it imports PyTorch, and few need it

    return merged_folder(at)


def _modules(model: str) -> list[tuple[str, str]] | None:
    """(kind, path) of each part of a model of sentence-transformers; None if it is none."""
    if model == TINY or (modules := _document(model, MODULES)) is None:
        return None
    try:
        return [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in modules]
    except (TypeError, KeyError):
        raise unusable(model, f"has a {MODULES} of another form", "a list of modules with type and path") from None


def _mapping(model: str, name: str) -> Mapping[str, Any]:
    """A JSON file that holds a mapping; an empty one if there is none."""
    document = _document(model, name)
    if document is not None and not isinstance(document, Mapping):
        raise unusable(model, f"has a {name} that is not a mapping", "a whole folder")
    return document or {}


def _document(model: str, name: str) -> Any:
    """A JSON file of a folder or of a hub name; None if there is none."""
    try:
        path = file_of(model, name)
        return None if path is None else json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        wrong = f"'{model}' has a {name} that cannot be read ({str(error)[:200]})"
        raise ConfigError(Problem("ranker.model", wrong, "a whole folder")) from None
