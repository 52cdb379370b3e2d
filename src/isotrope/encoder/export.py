"""Save an encoder so that plain sentence-transformers loads it with equal embeddings, or says that
it cannot.

Version 6 of sentence-transformers and version 5 of transformers write other words than those before
them. They read the older ones as well, so a saved folder holds the older ones. An average of layers
needs sentence-transformers 5.4.
"""

import json
from collections.abc import Mapping
from copy import copy
from math import inf
from pathlib import Path
from typing import Any

from sentence_transformers import SentenceTransformer

from isotrope.encoder.faults import quiet
from isotrope.encoder.locate import trust
from isotrope.encoder.pooling import split_layers
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
# Of a model that version 4 would load with other vectors: its tokenizer's class, which version 4
# does not find, and
# ModernBERT's rhythm of layers, with which it and 5.0 cannot count.
NEEDS_5, NO_RHYTHM = (
    "NeedsTransformers5",
    "none: see layer_types, which transformers 4 and 5.0 do not read",
)


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
    portable = copy(model)
    portable._modules = {str(i): module for i, module in enumerate(split_layers(list(model)))}
    with new_folder(Path(folder), "model") as draft:
        with quiet():
            portable.save_pretrained(str(draft), create_model_card=False)
        # cut texts as the model does, not as the latest batch was cut
        for path in draft.rglob("tokenizer.json"):
            tokenizer, length = _read(path), model.max_seq_length
            if (
                length
                and length < inf
                and (tokenizer.get("truncation") or {}).get("max_length", length) != length
            ):
                tokenizer["truncation"]["max_length"] = length
                write_text(path, json.dumps(tokenizer, indent=2, ensure_ascii=False))
        modules = _read(draft / "modules.json")
        for module in modules:
            if module["type"].startswith("sentence_transformers."):
                module["type"] = CLASSIC + module["type"].rsplit(".", 1)[-1]
                _make_classic(
                    draft / module["path"],
                    module["type"].removeprefix(CLASSIC),
                    model.max_seq_length,
                )
        write_json(draft / "modules.json", modules)
        for name, record in (records or {}).items():
            write_json(draft / name, record)
        if card:
            write_text(draft / "README.md", card)
        for name, (part, part_card) in (parts or {}).items():
            save(part, draft / name, card=part_card)
    for place in ("", *(parts or {})):
        trust(Path(folder, place))


def for_transformers_4(config: dict[str, Any]) -> dict[str, Any] | None:
    """What version 4 of transformers reads in place of ``rope_parameters``; None: it cannot be said
    in its words.

    Without these keys it takes its defaults, and gives other vectors without a word.
    """
    if config.get("is_causal") is False:  # it would hide the tokens behind each one all the same
        return None
    rope: dict[str, Any] | None = config.get("rope_parameters")
    if not rope:
        return {}
    if config.get("model_type") == "modernbert":
        kinds: list[str] = config["layer_types"]
        every = next(
            (i for i, kind in enumerate(kinds[1:], 1) if kind == "full_attention"), len(kinds)
        )
        as_said = kinds == [
            "sliding_attention" if i % every else "full_attention" for i in range(len(kinds))
        ]
        if not as_said or any(
            turn.get("rope_type", "default") != "default" for turn in rope.values()
        ):
            return None
        return {
            "global_attn_every_n_layers": every,
            "global_rope_theta": rope["full_attention"]["rope_theta"],
            "local_rope_theta": rope["sliding_attention"]["rope_theta"],
        }
    if "rope_theta" not in rope or "partial_rotary_factor" in rope:
        return None
    scaling = {key: value for key, value in rope.items() if key != "rope_theta"}
    return {
        "rope_theta": rope["rope_theta"],
        "rope_scaling": scaling if scaling["rope_type"] != "default" else None,
    }


def _make_classic(folder: Path, kind: str, max_seq_length: int | None) -> None:
    """Rewrite a module's settings in the words of version 5."""
    if kind not in ("Transformer", "Pooling", "WeightedLayerPooling", "Dense"):
        return
    path = folder / "config.json"
    settings = _read(path) if path.is_file() else {}  # an adapter has none
    if kind == "Transformer":
        write_json(
            folder / "sentence_bert_config.json",
            {"max_seq_length": max_seq_length, "do_lower_case": False},
        )
        tokenizer, older = _read(folder / "tokenizer_config.json"), for_transformers_4(settings)
        if older is None:
            tokenizer["tokenizer_class"] = NEEDS_5
            older = (
                {"global_attn_every_n_layers": NO_RHYTHM}
                if settings["model_type"] == "modernbert"
                else {}
            )
        elif tokenizer.get("tokenizer_class") in ("TokenizersBackend", NEEDS_5):
            # its name before transformers 5
            tokenizer["tokenizer_class"] = "PreTrainedTokenizerFast"
        write_json(folder / "tokenizer_config.json", tokenizer)
        settings |= older
    elif "embedding_dimension" in settings:
        settings["word_embedding_dimension"] = settings.pop("embedding_dimension")
    if kind == "Pooling":
        asked = settings.pop("pooling_mode")
        chosen = {asked} if isinstance(asked, str) else set(asked)
        settings |= {key: mode in chosen for mode, key in MODES.items()}
    if kind == "Dense":
        for key in ("module_input_name", "module_output_name"):
            if settings.get(key) == "sentence_embedding":
                del settings[key]
    if settings:
        write_json(path, settings)


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
