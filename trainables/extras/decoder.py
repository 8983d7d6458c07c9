"""Language models that say yes or no: the score is the logit of "yes" less that of "no" behind a prompt with both texts
(Zhang et al. 2025, Qwen3 Embedding, section 2; prompts: `prompt`).

Both logits are products of the last token's vector with a row of the language model's last layer, so their difference
is one linear layer, `score`, which begins as the difference of the rows. This is the form of transformers'
`...ForSequenceClassification` with one label, in which a ranker is saved, with its prompt as a chat template.

Query and document stand between the prompt's tokens, and a pair that is too long loses tokens as `bert`'s do; the
prompt loses none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES as CLASSIFIERS

from trainables.core.errors import ConfigError, Problem
from trainables.core.files import read_text
from trainables.extras.prompt import DECODERS, DecoderSettings, Prompt, anchor_of, prompt_of, require_room, word_ids
from trainables.rankers.adapters import require_changes, trained_parameters
from trainables.rankers.bert import save_activations
from trainables.rankers.classifier_folder import WEIGHTS, config_of, saved, tensors_of, write_json, write_parts
from trainables.rankers.encoders import (
    empty_encoder,
    encode_texts,
    is_decoder,
    new_encoder,
    pretrained_encoder,
    read_model,
)
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.folder import (
    CONFIG,
    TEMPLATE,
    TOKENIZER_CONFIG,
    ModelFolder,
    read_folder,
    require_reads_pairs,
)
from trainables.rankers.hub import unusable
from trainables.rankers.pretrained import (
    PAIRS,
    TOKENIZER,
    PretrainedRanker,
    PromptedModule,
    config_file,
    require_positions,
)
from trainables.rankers.ranker import RankerModule, TextSide, Tokens
from trainables.rankers.text_pairs import PairTemplate

PROMPT, WORDS = "prompt.json", "words.json"  # among the text files: the prompt, and the ids of the words that answer
MANY = 2048  # tokens that a model reads at least if it does not say
CLOSE = 1e-3  # between the words' logits and their products with the last layer's rows
OLD = Prompt("", (" ", "\n"), "", (" ", ""), "")  # what an earlier version's rankers put around the texts


class DecoderModule(PromptedModule):
    """Scores [B] of pairs. `model`: a transformers decoder, without its language model's layer, which `score` stands
    for; `bias`: whether that layer has one."""

    tolerates_bf16 = True

    def __init__(
        self,
        model: PreTrainedModel,
        template: PairTemplate,
        settings: DecoderSettings,
        max_length: int,
        bias: bool = False,
    ):
        super().__init__()
        require_room(template.specials, max_length)
        self.model, self.template, self.settings, self.max_length = model, template, settings, max_length
        size = getattr(model.config, "word_embed_proj_dim", model.config.hidden_size)
        self.score = nn.Linear(size, 1, bias=bias)
        speed_up(model)
        if settings.checkpointing:
            save_activations(model, settings.model)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # A decoder's token reads no later one, so padding on the right changes nothing before it.
        states = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        last = states[torch.arange(len(states), device=states.device), attention_mask.sum(1) - 1]
        # In bf16, scores would have 8 bits and tie.
        with torch.autocast(last.device.type, enabled=False):
            return self.score(last.to(self.score.weight.dtype))[:, 0]

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The scoring layer, and the decoder."""
        head = {"params": list(self.score.parameters()), "lr": self.settings.head_lr or lr}
        return [head, {"params": trained_parameters(self.model), "lr": lr}]


class Decoder(PretrainedRanker):
    cache_kind = "decoder"

    def files(self, settings: DecoderSettings, from_front: bool) -> dict[str, str]:
        folder = require_reads_pairs(read_folder(settings.model))
        config, tokenizer = read_model(folder.at, DECODERS)
        if problem := _problem(folder, config):
            raise unusable(settings.model, problem, f"{DECODERS}; encoders: ranker.name: bert")
        backend = tokenizer.backend_tokenizer
        prompt = prompt_of(folder, backend, settings.instruction)
        named = str(tokenizer.pad_token if tokenizer.pad_token is not None else tokenizer.eos_token)
        pad = tokenizer.convert_tokens_to_ids(named)
        if not isinstance(pad, int):
            raise unusable(settings.model, "has no token for padding", DECODERS)
        own = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None) or MANY
        longest = min(tokenizer.model_max_length, own)
        if prompt is None:
            template = PairTemplate.of(backend, longest, pad, from_front)
        else:
            template = PairTemplate(*prompt.tokens(backend), False, longest, pad, from_front)
        files = {TOKENIZER: backend.to_str(), CONFIG: config_file(config), PAIRS: template.to_json()}
        files |= {PROMPT: prompt.to_json() if prompt else "null"}
        if folder.kind == "classifier":
            return files
        biased = getattr(
            empty_encoder(json.loads(files[CONFIG]), AutoModelForCausalLM).get_output_embeddings(), "bias", None
        )
        return files | {WORDS: json.dumps([*word_ids(folder, prompt, backend), biased is not None])}

    def notes(self, text: TextSide, settings: DecoderSettings) -> tuple[str, ...]:
        fields = json.loads(text.files[CONFIG])
        if settings.lora.rank or settings.freeze is not None:
            require_changes(empty_encoder(fields), settings.lora, settings.freeze)
        prompt = asked_by(text.files)
        own = (prompt.note,) if prompt and prompt.note else ()
        return (*own, "decoders are not packed: short pairs are padded")

    def encode_queries(self, files: Mapping[str, str], settings: DecoderSettings, texts: Iterable[str]) -> Tokens:
        return self._encoded(files, 0, texts)

    def encode(self, files: Mapping[str, str], settings: DecoderSettings, texts: Iterable[str]) -> Tokens:
        return self._encoded(files, 1, texts)

    def _encoded(self, files: Mapping[str, str], side: int, texts: Iterable[str]) -> Tokens:
        """Tokens of queries (0) or documents (1) as they stand in the prompt."""
        prompt = asked_by(files)
        around = ("", "") if prompt is None else (prompt.query, prompt.document)[side]
        lead, trail = around
        tokenizer = Tokenizer.from_str(files[TOKENIZER])
        anchor, skipped = anchor_of(tokenizer)
        return without_first(encode_texts(tokenizer, (f"{anchor}{lead}{text}{trail}" for text in texts)), skipped)

    def build(self, text: TextSide, settings: DecoderSettings, max_length: int, outputs: int = 1) -> DecoderModule:
        """Raises ConfigError for classes, or if the decoder reads fewer tokens than `max_length`, or fewer than its
        prompt has."""
        if outputs != 1:
            raise ConfigError(Problem("ranker.name", "decoder says yes or no, and the data has classes", "bert"))
        template = PairTemplate.from_json(text.files[PAIRS])
        require_positions(settings.model, template.longest, max_length)
        model, direction, offset = _pretrained(settings.model, text.files)
        module = DecoderModule(model, template, settings, max_length, _is_biased(text.files))
        with torch.no_grad():
            module.score.weight.copy_(direction)
            if module.score.bias is not None:
                module.score.bias.fill_(offset)
        module.add_adapters(model, settings.lora)
        module.freeze(model, settings.freeze, text)
        return module

    def restore(
        self, files: Mapping[str, str], settings: DecoderSettings, max_length: int, outputs: int = 1
    ) -> DecoderModule:
        model, template = new_encoder(json.loads(files[CONFIG])), PairTemplate.from_json(files[PAIRS])
        return DecoderModule(model, template, settings, max_length, _is_biased(files))

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str] | None:
        """Writes a Hugging Face folder. Other libraries give equal scores to a pair."""
        assert isinstance(module, DecoderModule)
        fields = json.loads(files[CONFIG])
        if module.score.bias is not None or fields["model_type"] not in CLASSIFIERS:
            return None
        state = module.state_dict()
        prefix = module.model.base_model_prefix
        named = {f"{prefix}.{n.removeprefix('model.')}" if n.startswith("model.") else n: t for n, t in state.items()}
        save_file(saved(named), folder / WEIGHTS, {"format": "pt"})
        pairs = json.loads(files[PAIRS])
        config = config_of(fields, {"pad_token_id": pairs["pad"]}, pairs["longest"], classes)
        pad = Tokenizer.from_str(files[TOKENIZER]).id_to_token(pairs["pad"])
        reads = {"pad_token": pad, "model_max_length": pairs["longest"], "tokenizer_class": "PreTrainedTokenizerFast"}
        reads |= {"padding_side": "right"}
        for name, document in ((CONFIG, config), (TOKENIZER_CONFIG, reads)):
            write_json(folder / name, document)
        (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
        if (prompt := asked_by(files)) is not None:
            (folder / TEMPLATE).write_text(prompt.template, encoding="utf-8")
            write_parts(folder, {}, chat=True)
        return {name: files[name] for name in (CONFIG, PAIRS, PROMPT) if name in files}

    def read(self, folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
        tensors = {
            name if name.startswith("score.") else f"model.{name.partition('.')[2]}": tensor
            for name, tensor in tensors_of(folder / WEIGHTS).items()
        }
        return {TOKENIZER: read_text(folder / TOKENIZER)}, tensors


def asked_by(files: Mapping[str, str]) -> Prompt | None:
    """The prompt of a ranker's text files; None if it has none. Earlier versions wrote its tokens alone."""
    if PROMPT not in files:
        return OLD
    return None if files[PROMPT] == "null" else Prompt.from_json(files[PROMPT])


def _is_biased(files: Mapping[str, str]) -> bool:
    return bool(json.loads(files.get(WORDS, "[0, 0, false]"))[2])


def without_first(tokens: Tokens, count: int) -> Tokens:
    """The tokens of each text but the first `count`."""
    if not count:
        return tokens
    kept = np.ones(len(tokens.ids), bool)
    kept[(tokens.offsets[:-1, None] + np.arange(count)).ravel()] = False
    return Tokens(tokens.ids[kept], tokens.offsets - count * np.arange(len(tokens.offsets)))


def _problem(folder: ModelFolder, config: PretrainedConfig) -> str | None:
    """What keeps a model from saying yes or no, or from giving one logit."""
    if folder.kind == "other":
        return folder.what
    if not is_decoder(config.model_type) or config.is_encoder_decoder:
        return f"is of architecture {config.model_type}, whose tokens read later ones"
    if folder.kind == "decoder" or (folder.kind == "classifier" and config.num_labels == 1):
        return None
    names = ", ".join(config.architectures or [])
    return f"has no language model's layer and no scoring layer with one label (architectures: {names})"


def _pretrained(model: str, files: Mapping[str, str]) -> tuple[PreTrainedModel, Tensor, float]:
    """A decoder with its weights, and the weights [1, D] and the bias of the scoring layer. Raises ConfigError for an
    architecture whose words' logits are not such a product."""
    at = read_folder(model).at
    if WORDS not in files:
        whole: Any = pretrained_encoder(at, AutoModelForSequenceClassification)
        return whole.base_model, whole.score.weight.detach(), 0.0
    whole = pretrained_encoder(at, AutoModelForCausalLM)
    yes, no = json.loads(files[WORDS])[:2]
    layer = whole.get_output_embeddings()
    rows, bias = layer.weight.detach(), getattr(layer, "bias", None)
    direction = (rows[yes] - rows[no] if no is not None else rows[yes])[None]
    offset = 0.0 if bias is None else float(bias[yes] - (bias[no] if no is not None else 0.0))
    _require_product(model, whole, (yes, no), direction, offset)
    return whole.base_model, direction, offset


def _require_product(model: str, whole: Any, words: tuple[int, int | None], direction: Tensor, offset: float) -> None:
    ids = torch.tensor([[word for word in words if word is not None]])
    with torch.no_grad():
        logits = whole(input_ids=ids).logits[0, -1]
        states = whole.base_model(input_ids=ids).last_hidden_state[0, -1]
        expected = logits[words[0]] - (logits[words[1]] if words[1] is not None else 0.0)
        found = direction[0] @ states + offset
    if not torch.allclose(found, expected, CLOSE, CLOSE):
        wrong = f"({whole.config.model_type}) does more to its words' logits than one layer, such as a soft cap"
        raise unusable(model, wrong, DECODERS)
