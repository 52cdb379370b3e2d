"""Save an encoder so that plain sentence-transformers loads it with equal embeddings.

If it cannot, it says so. Version 6 of sentence-transformers and version 5 of transformers write
other words than those before them. They read the older ones as well, so a saved folder holds the
older ones. An average of layers needs sentence-transformers 5.4.
"""

import json
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.encoder.faults import quiet
from isotrope.encoder.locate import trust
from isotrope.encoder.pooling import split_layers
from isotrope.encoder.prompts import with_modules
from isotrope.store.files import new_folder, write_json, write_text

CLASSIC = "sentence_transformers.models."
MODES = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
# The tokenizer's class of a model that version 4 would load with other vectors: it does not find
# it.
NEEDS_5 = "NeedsTransformers5"
# ModernBERT's rhythm of layers, with which version 4 and 5.0 cannot count.
NO_RHYTHM = "none: see layer_types, which transformers 4 and 5.0 do not read"


def save(
    model: SentenceTransformer,
    folder: str | Path,
    records: Mapping[str, Any] | None = None,
    card: str = "",
    parts: Mapping[str, tuple[SentenceTransformer, str]] | None = None,
) -> None:
    """Write ``model`` to ``folder`` (safetensors), whole or not at all.

    Args:
        model: any.
        folder: new, empty, or an earlier model of ours, which is replaced.
        records: JSON files to lie beside it: name -> value.
        card: the text of its README.md, if it has one.
        parts: further models to lie below it: name of the subfolder -> the model and its card.

    Raises:
        UserError: ``folder`` holds something that is not ours.
    """
    portable = with_modules(model, split_layers(list(model)))
    with new_folder(Path(folder), "model") as draft:
        with quiet():
            portable.save_pretrained(str(draft), create_model_card=False)
        _write_length(draft, model.max_seq_length)
        _make_classic(draft, model.max_seq_length)

        for name, record in (records or {}).items():
            write_json(draft / name, record)
        if card:
            write_text(draft / "README.md", card)
        for name, (part, part_card) in (parts or {}).items():
            save(part, draft / name, card=part_card)
    trust(Path(folder))
    for name in parts or {}:
        trust(Path(folder, name))


def _write_length(draft: Path, length: float | None) -> None:
    """Let the saved tokenizers cut texts as the model does, not as the latest batch was cut."""
    if not length or length == inf:
        return
    for path in draft.rglob("tokenizer.json"):
        tokenizer = _read(path)
        truncation = tokenizer.get("truncation") or {}
        if truncation.get("max_length", length) != length:
            truncation["max_length"] = length
            write_text(path, json.dumps(tokenizer, indent=2, ensure_ascii=False))


def for_transformers_4(config: dict[str, Any]) -> dict[str, Any] | None:
    """What version 4 of transformers reads in place of ``rope_parameters``.

    Without these keys it takes its defaults, and gives other vectors without a word. None: it
    cannot be said in its words.
    """
    if config.get("is_causal") is False:  # version 4 ignores this and stays causal
        return None
    rope: dict[str, Any] | None = config.get("rope_parameters")
    if not rope:
        return {}
    if config.get("model_type") == "modernbert":
        return _modernbert_for_transformers_4(config["layer_types"], rope)
    if "rope_theta" not in rope or "partial_rotary_factor" in rope:
        return None
    scaling = dict(rope)
    theta = scaling.pop("rope_theta")
    has_scaling = scaling["rope_type"] != "default"
    return {"rope_theta": theta, "rope_scaling": scaling if has_scaling else None}


def _modernbert_for_transformers_4(
    layer_types: list[str], rope: dict[str, Any]
) -> dict[str, Any] | None:
    """ModernBERT's settings, in which each n-th layer, from the first on, sees all tokens."""
    rhythm = len(layer_types)
    if "full_attention" in layer_types[1:]:
        rhythm = layer_types.index("full_attention", 1)
    for layer, kind in enumerate(layer_types):
        is_in_rhythm = layer % rhythm == 0
        if is_in_rhythm != (kind == "full_attention"):
            return None
    for angles in rope.values():
        if angles.get("rope_type", "default") != "default":
            return None
    return {
        "global_attn_every_n_layers": rhythm,
        "global_rope_theta": rope["full_attention"]["rope_theta"],
        "local_rope_theta": rope["sliding_attention"]["rope_theta"],
    }


def _make_classic(draft: Path, length: int | None) -> None:
    """Rewrite a saved model in the words of version 5 of sentence-transformers."""
    modules = _read(draft / "modules.json")
    for module in modules:
        if not module["type"].startswith("sentence_transformers."):
            continue
        kind = module["type"].rpartition(".")[2]
        module["type"] = CLASSIC + kind
        folder = draft / module["path"]
        if kind == "Transformer":
            _make_classic_transformer(folder, length)
        elif kind in ("Pooling", "WeightedLayerPooling", "Dense"):
            settings = _classic_settings(kind, _read(folder / "config.json"))
            write_json(folder / "config.json", settings)
    write_json(draft / "modules.json", modules)


def _make_classic_transformer(folder: Path, length: int | None) -> None:
    """Rewrite the settings of a transformer."""
    path = folder / "config.json"
    config = _read(path) if path.is_file() else {}  # an adapter has none
    tokenizer = _read(folder / "tokenizer_config.json")
    older = for_transformers_4(config)
    if older is None:
        tokenizer["tokenizer_class"] = NEEDS_5
        older = {}
        if config["model_type"] == "modernbert":
            older["global_attn_every_n_layers"] = NO_RHYTHM
    elif tokenizer.get("tokenizer_class") in ("TokenizersBackend", NEEDS_5):
        # Its name before transformers 5.
        tokenizer["tokenizer_class"] = "PreTrainedTokenizerFast"

    write_json(folder / "tokenizer_config.json", tokenizer)
    sentence_bert = {"max_seq_length": length, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", sentence_bert)
    if config or older:
        write_json(path, config | older)


def _classic_settings(kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of another module."""
    if "embedding_dimension" in settings:
        settings["word_embedding_dimension"] = settings.pop("embedding_dimension")
    if kind == "Pooling":
        modes = settings.pop("pooling_mode")
        if isinstance(modes, str):
            modes = [modes]
        for mode, key in MODES.items():
            settings[key] = mode in modes
    if kind == "Dense":
        for key in ("module_input_name", "module_output_name"):
            if settings.get(key) == "sentence_embedding":
                del settings[key]
    return settings


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
