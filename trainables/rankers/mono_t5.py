"""monoT5 (Nogueira et al. 2020): an encoder-decoder reads "Query: ... Document: ... Relevant:", and the score is the
logit of "true" less that of "false" as its first word. It is a `bert` with `head: pretrained`, saved as transformers'
`...ForConditionalGeneration`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModelForSeq2SeqLM, PreTrainedModel

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.classifier_folder import WEIGHTS, saved, tokenizer_config, write_json
from trainables.rankers.encoders import new_encoder, pretrained_encoder, read_model
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.folder import CONFIG, OURS, TOKENIZER_CONFIG, ModelFolder
from trainables.rankers.hub import unusable
from trainables.rankers.pretrained import ENDLESS, PAIRS, TOKENIZER, PromptedModule, config_file
from trainables.rankers.settings import BertSettings
from trainables.rankers.text_pairs import PairTemplate

PARTS = ("Query:", "Document:", "Relevant:")
ANSWERS = ("true", "false")
WORDS = "words.json"  # among the text files: the ids of the words that answer


def mono_files(folder: ModelFolder, settings: BertSettings, from_front: bool) -> dict[str, str]:
    """Files of the tokenizer and configuration. Raises ConfigError for a tokenizer that lacks what the prompt needs."""
    if settings.head != "pretrained":
        wrong = f"'{settings.head}' is a new layer on [CLS], and '{folder.model}' answers in words, as monoT5"
        raise ConfigError(Problem("ranker.head", wrong, "pretrained"))
    config, tokenizer = read_model(folder.at)
    backend = tokenizer.backend_tokenizer
    words = [backend.encode(word, add_special_tokens=False).ids for word in ANSWERS]
    pad = tokenizer.pad_token_id
    if any(len(word) != 1 for word in words) or not isinstance(pad, int):
        raise unusable(folder.model, f"has no single token for {' or '.join(ANSWERS)}, or none for padding")
    before, between, after = (tuple(backend.encode(part, add_special_tokens=False).ids) for part in PARTS)
    end = tuple(backend.encode("a").ids[len(backend.encode("a", add_special_tokens=False).ids) :])
    longest = (getattr(config, OURS, None) or {}).get("longest", min(tokenizer.model_max_length, ENDLESS))
    template = PairTemplate(before, between, after + end, False, longest, pad, from_front)
    return {
        TOKENIZER: backend.to_str(),
        CONFIG: config_file(config),
        PAIRS: template.to_json(),
        WORDS: json.dumps([word[0] for word in words]),
    }


def mono_t5(
    files: Mapping[str, str], settings: BertSettings, max_length: int, outputs: int, folder: ModelFolder | None = None
) -> MonoT5Module:
    """The module of text files, with the weights of a folder, or none yet."""
    if outputs != 1:
        raise ConfigError(Problem("ranker.model", "answers true or false, and the data has classes", "an encoder"))
    if settings.passages != "truncate":
        raise ConfigError(Problem("ranker.passages", "'average' is of [CLS] vectors, and monoT5 has none", "truncate"))
    fields = json.loads(files[CONFIG])
    kind = AutoModelForSeq2SeqLM
    model = new_encoder(fields, kind) if folder is None else pretrained_encoder(folder.at, kind)
    return MonoT5Module(model, files, settings, max_length)


class MonoT5Module(PromptedModule):
    """Scores [B] of pairs. In bf16, the logits of two words would have 8 bits and tie."""

    def __init__(self, model: PreTrainedModel, files: Mapping[str, str], settings: BertSettings, max_length: int):
        super().__init__()
        self.model, self.settings, self.max_length = model, settings, max_length
        self.template, self.words = PairTemplate.from_json(files[PAIRS]), json.loads(files[WORDS])
        speed_up(model)

    @property
    def encoder(self) -> PreTrainedModel:
        """What adapters are added to: the encoder and the decoder."""
        return self.model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        start = torch.full_like(input_ids[:, :1], self.model.config.decoder_start_token_id)
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask, decoder_input_ids=start).logits
        yes, no = self.words
        return (logits[:, 0, yes] - logits[:, 0, no]).float()


def write_mono(module: MonoT5Module, files: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Writes a folder of transformers; returns the text files that it does not hold."""
    fields, longest = json.loads(files[CONFIG]), module.template.longest
    save_file(saved(module.model.state_dict()), folder / WEIGHTS, {"format": "pt"})
    write_json(folder / CONFIG, fields | {OURS: {"longest": longest}})
    (folder / TOKENIZER).write_text(files[TOKENIZER], encoding="utf-8")
    end = Tokenizer.from_str(files[TOKENIZER]).id_to_token(module.template.after[-1])
    names = tokenizer_config(files, module.max_length)
    write_json(folder / TOKENIZER_CONFIG, {**names, "cls_token": None, "sep_token": None, "eos_token": end})
    return {name: files[name] for name in (CONFIG, PAIRS, WORDS)}
