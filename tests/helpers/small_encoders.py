"""Random encoders of every architecture that packing knows."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor, nn

from helpers.words import WORDS
from isotrope import load
from isotrope.encoder.fast.packed import pack

KINDS = [
    "Bert",
    "Roberta",
    "XLMRoberta",
    "Camembert",
    "MPNet",
    "ModernBert",
    "Electra",
    "DistilBert",
]


N, L, VOCABULARY = 5, 12, 50


def random_model(kind: str, dropout: float = 0.0) -> Any:
    """A small encoder; ModernBERT's attention sees three tokens to either side in its second layer."""
    shape: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 40,
        "pad_token_id": 1,
    }
    if kind == "DistilBert":
        shape |= {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "dropout": dropout}
        shape |= {"attention_dropout": dropout}
    else:
        shape |= {
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 24,
        }
        shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if kind == "ModernBert":
        shape |= {
            "local_attention": 6,
            "global_attn_every_n_layers": 2,
            "embedding_dropout": dropout,
        }
        shape |= {"attention_dropout": dropout, "mlp_dropout": dropout}
        shape |= {"bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    if kind == "Electra":
        shape |= {"embedding_size": 8}
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(getattr(transformers, f"{kind}Config")(**shape))
    for weight in model.parameters():  # embeddings are born small: let every part matter
        weight.data.normal_(0, 0.3)
    return model.eval()


def as_student(kind: str, folder: Path) -> SentenceTransformer:
    """The same as a sentence encoder with a tokenizer of its own; the mean of its tokens; with
    dropout.
    """
    letters = {
        word: number
        for number, word in enumerate(["[PAD]", "<pad>", "[CLS]", "[SEP]", "[UNK]", "[MASK]"])
    }
    words = letters | {
        word: number for number, word in enumerate(WORDS[: VOCABULARY - len(letters)], len(letters))
    }
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=marks
    )
    names = {
        "pad_token": "<pad>",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    whole = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, model_max_length=32, unk_token="[UNK]", **names
    )
    whole.save_pretrained(folder)
    random_model(kind).save_pretrained(folder)
    return load(folder, "mean", dropout=0.1, device="cpu")


def batch(holes: bool = False) -> dict[str, Tensor]:
    """Sentences of 3 to 12 tokens; with holes, some tokens in their midst are hidden, as by token
    cutoff.
    """
    generator = torch.Generator().manual_seed(0)
    mask = (torch.arange(L) < torch.tensor([12, 3, 7, 9, 5])[:, None]).long()  # (N, L)
    ids = torch.randint(4, VOCABULARY, (N, L), generator=generator) * mask + (1 - mask)
    if holes:
        mask = mask * (torch.rand(N, L, generator=generator) > 0.3)
        mask[:, 0] = 1
    return {"input_ids": ids, "attention_mask": mask}


def both(kind: str) -> tuple[Any, Any]:
    plain = random_model(kind)
    packed = deepcopy(plain)
    pack(packed)
    return plain, packed


def states(model: nn.Module, features: dict[str, Tensor]) -> Tensor:
    """All layers' states of real tokens (layers, T, D), and the pooler's output where there is one."""
    output = model(**features, output_hidden_states=True)
    layers = torch.stack([*output.hidden_states, output.last_hidden_state])
    return layers[:, features["attention_mask"].bool()]


def rows_of_linear_layers(model: nn.Module) -> set[int]:
    """Filled by the next forward pass: how many rows each linear layer of ``model`` was given."""
    seen: set[int] = set()
    for name, module in model.named_modules():
        if isinstance(module, nn.Linear) and "pooler" not in name:
            module.register_forward_hook(
                lambda _, given, __: seen.add(given[0].numel() // given[0].shape[-1])
            )
    return seen
