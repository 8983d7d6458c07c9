"""Decoders that say yes or no: the score is the logit of "yes" less that of "no" behind a prompt with both texts
(Zhang et al. 2025, Qwen3 Embedding, section 2; prompt: the model card of Qwen/Qwen3-Reranker-0.6B).

Both logits are products of the last token's vector with a row of the language model's last layer, so their difference
is one linear layer, `score`, which begins as the difference of the rows. This is the form of transformers'
`Qwen3ForSequenceClassification` with one label, in which a ranker is saved.

Query and document stand between the prompt's tokens as in the card, and a pair that is too long loses tokens as
`bert`'s do; the prompt loses none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.core.files import opened, read_text
from trainables.data.columns import RankingData
from trainables.rankers.adapters import AdaptedModule, decayed_groups, require_changes
from trainables.rankers.bert import require_positions, save_activations
from trainables.rankers.classifier_folder import CONFIG, PAIRS, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS, config_of
from trainables.rankers.encoders import (
    empty_encoder,
    encode_texts,
    files_identity,
    new_encoder,
    pretrained_encoder,
    read_model,
)
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.hub import unusable
from trainables.rankers.prompt import prompt_tokens, require_room
from trainables.rankers.ranker import Ranker, RankerModule, TextSide, Tokens
from trainables.rankers.settings import DECODERS, DecoderSettings
from trainables.rankers.text_pairs import PairTemplate, cached_text_side, keeps_latest

ARCHITECTURES = ("qwen2", "qwen3")
ANSWERS = ("yes", "no")


def prompt_template(tokenizer: Tokenizer, instruction: str, longest: int, pad: int, from_front: bool) -> PairTemplate:
    """The prompt's tokens around query and document (`query_form`, `document_form`)."""
    before, between, after = prompt_tokens(tokenizer, instruction)
    return PairTemplate(before, between, after, False, longest, pad, from_front)


def query_form(query: str) -> str:
    return f" {query}\n"


def document_form(document: str) -> str:
    return f" {document}"


class DecoderModule(AdaptedModule):
    """Scores [B] of pairs. `model`: a transformers decoder, without its language model's layer, which `score` stands
    for."""

    tolerates_bf16 = True

    def __init__(self, model: PreTrainedModel, template: PairTemplate, settings: DecoderSettings, max_length: int):
        super().__init__()
        require_room(template.specials, max_length)
        self.model, self.template, self.settings, self.max_length = model, template, settings, max_length
        self.score = nn.Linear(model.config.hidden_size, 1, bias=False)
        speed_up(model)
        if settings.checkpointing:
            save_activations(model, settings.model)

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length)
        return {name: inputs[name] for name in ("input_ids", "attention_mask")}

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Tokens of the truncated pair, those of the prompt included."""
        return self.template.pair_lengths(queries, documents, query_rows, document_rows, self.max_length)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        # A decoder's token reads no later one, so padding on the right changes nothing before it.
        states = self.model(input_ids=input_ids, attention_mask=attention_mask, use_cache=False).last_hidden_state
        last = states[torch.arange(len(states), device=states.device), attention_mask.sum(1) - 1]
        # In bf16, scores would have 8 bits and tie.
        with torch.autocast(last.device.type, enabled=False):
            return self.score(last.to(self.score.weight.dtype))[:, 0]

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The scoring layer, and the decoder, whose rate can fall from layer to layer."""
        head = {"params": list(self.score.parameters()), "lr": self.settings.head_lr or lr}
        return [head, *decayed_groups(self.model, lr, self.settings.layer_decay)]


class Decoder(Ranker):
    def prepare(self, data: RankingData, settings: DecoderSettings, seed: int) -> TextSide:
        """The seed is not used: the vocabulary is the model's."""
        files = _files(settings, keeps_latest(data, settings.keep))

        def build() -> TextSide:
            queries = self.encode_queries(files, settings, data.query_texts())
            return TextSide(queries, self.encode(files, settings, data.documents), files)

        return cached_text_side("decoder", digest_of(data.digest, files), build)

    def weights_identity(self, settings: DecoderSettings) -> list[object]:
        return files_identity(Path(settings.model))

    def notes(self, text: TextSide, settings: DecoderSettings) -> tuple[str, ...]:
        if settings.lora.rank or settings.layer_decay < 1:
            require_changes(empty_encoder(json.loads(text.files[CONFIG])), settings.lora, settings.layer_decay)
        return ("decoders are not packed: short pairs are padded",)

    def encode_queries(self, files: Mapping[str, str], settings: DecoderSettings, texts: Iterable[str]) -> Tokens:
        return encode_texts(Tokenizer.from_str(files[TOKENIZER]), map(query_form, texts))

    def encode(self, files: Mapping[str, str], settings: DecoderSettings, texts: Iterable[str]) -> Tokens:
        return encode_texts(Tokenizer.from_str(files[TOKENIZER]), map(document_form, texts))

    def build(self, text: TextSide, settings: DecoderSettings, max_length: int, outputs: int = 1) -> DecoderModule:
        """Raises ConfigError for classes, or if the decoder reads fewer tokens than `max_length`, or fewer than its
        prompt has."""
        if outputs != 1:
            raise ConfigError(Problem("ranker.name", "decoder says yes or no, and the data has classes", "bert"))
        template = PairTemplate.from_json(text.files[PAIRS])
        require_positions(settings.model, template.longest, max_length)
        model, direction = _pretrained(settings.model, text.files)
        module = DecoderModule(model, template, settings, max_length)
        with torch.no_grad():
            module.score.weight.copy_(direction)
        module.add_adapters(model, settings.lora)
        return module

    def restore(
        self, files: Mapping[str, str], settings: DecoderSettings, max_length: int, outputs: int = 1
    ) -> DecoderModule:
        model = new_encoder(json.loads(files[CONFIG]))
        return DecoderModule(model, PairTemplate.from_json(files[PAIRS]), settings, max_length)

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str]:
        """Writes a Hugging Face folder. Other libraries give equal scores to a pair's whole `prompt`."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
        save_file(tensors, folder / WEIGHTS, {"format": "pt"})
        pairs = json.loads(files[PAIRS])
        config = config_of(json.loads(files[CONFIG]), {"pad_token_id": pairs["pad"]}, pairs["longest"], classes)
        pad = Tokenizer.from_str(files[TOKENIZER]).id_to_token(pairs["pad"])
        reads = {"pad_token": pad, "model_max_length": pairs["longest"], "tokenizer_class": "PreTrainedTokenizerFast"}
        for name, document in ((CONFIG, config), (TOKENIZER_CONFIG, reads)):
            (folder / name).write_text(json.dumps(document, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
        return {name: files[name] for name in (CONFIG, PAIRS)}

    def read(self, folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
        with opened(folder / WEIGHTS):  # safetensors reports every file that it cannot open as missing
            return {TOKENIZER: read_text(folder / TOKENIZER)}, load_file(folder / WEIGHTS)


def _files(settings: DecoderSettings, from_front: bool) -> dict[str, str]:
    """The texts of a decoder's tokenizer, configuration and prompt. Raises ConfigError if it cannot say yes or no."""
    config, tokenizer = read_model(settings.model, DECODERS)
    if problem := _problem(config, tokenizer.backend_tokenizer, tokenizer.pad_token is not None):
        raise unusable(settings.model, problem, f"{DECODERS}; encoders: ranker.name: bert")
    fields = {key: value for key, value in config.to_dict().items() if key != "_name_or_path"}
    longest = min(tokenizer.model_max_length, config.max_position_embeddings)
    pad = tokenizer.convert_tokens_to_ids(str(tokenizer.pad_token))
    assert isinstance(pad, int)
    template = prompt_template(tokenizer.backend_tokenizer, settings.instruction, longest, pad, from_front)
    return {
        TOKENIZER: tokenizer.backend_tokenizer.to_str(),
        CONFIG: json.dumps(fields, sort_keys=True),
        PAIRS: template.to_json(),
    }


def _problem(config: PretrainedConfig, tokenizer: Tokenizer, pads: bool) -> str | None:
    """What keeps a model from saying yes or no behind the prompt."""
    if config.model_type not in ARCHITECTURES:
        return f"is of architecture {config.model_type}, not {' or '.join(ARCHITECTURES)}"
    if not pads or any(tokenizer.token_to_id(answer) is None for answer in ANSWERS):
        return "has no token for padding, 'yes' or 'no'"
    names = config.architectures or []
    if any(name.endswith("ForCausalLM") for name in names) or (_classifies(names) and config.num_labels == 1):
        return None
    return f"has no language model's layer and no scoring layer with one label (architectures: {', '.join(names)})"


def _classifies(names: Sequence[str]) -> bool:
    return any(name.endswith("ForSequenceClassification") for name in names)


def _pretrained(model: str, files: Mapping[str, str]) -> tuple[PreTrainedModel, Tensor]:
    """A decoder with its weights, and the weights [1, D] of the scoring layer."""
    if _classifies(json.loads(files[CONFIG])["architectures"]):
        whole: Any = pretrained_encoder(model, AutoModelForSequenceClassification)
        return whole.base_model, whole.score.weight.detach()
    whole = pretrained_encoder(model, AutoModelForCausalLM)
    tokenizer, rows = Tokenizer.from_str(files[TOKENIZER]), whole.get_output_embeddings().weight.detach()
    yes, no = (rows[tokenizer.token_to_id(answer)] for answer in ANSWERS)
    return whole.base_model, (yes - no)[None]
