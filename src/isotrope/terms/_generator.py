"""DiffCSE's generator: a masked language model that stays as it is, and replaces words of a text.

Chuang et al., NAACL 2022, Sec. 3. https://aclanthology.org/2022.naacl-main.311
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer

from isotrope.contract.hiding import Hiding
from isotrope.encoder.faults import quiet
from isotrope.encoder.locate import locate
from isotrope.errors import UserError


class Generator(nn.Module):
    """A masked language model by name. If its files hold no layers that say words, new ones are learnt beside.

    Args:
        name: of the model, or its folder.
        tokenizer: the student's.
        ratio: the probability that a token is hidden.

    Raises:
        UserError: there is none of that name, it is no masked language model, or it has other words.
    """

    def __init__(self, name: str, tokenizer: Any, ratio: float) -> None:
        super().__init__()
        # In a tuple: what never changes is not for a checkpoint. Layers that learn are.
        self.frozen, learnt = _loaded(name, tokenizer)
        self.learnt, self.hiding = nn.ParameterList(learnt), Hiding(tokenizer, ratio)

    def _apply(self, *args: Any, **kwargs: Any) -> Generator:
        """To another device or precision, with the frozen model."""
        self.frozen[0]._apply(*args, **kwargs)  # type: ignore[no-untyped-call]
        return super()._apply(*args, **kwargs)  # type: ignore[no-any-return, no-untyped-call]

    def forward(self, ids: Tensor, mask: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Token ids (n, L), with what it says for those that it cannot see; and its own losses (T,)."""
        hidden, shown = self.hiding(ids, mask, noise)
        with torch.set_grad_enabled(len(self.learnt) > 0 and torch.is_grad_enabled()):
            logits = self.frozen[0](input_ids=shown, attention_mask=mask).logits[hidden]  # (T, W)
        edited = ids.masked_scatter(hidden, logits.detach().argmax(dim=-1))
        return edited, F.cross_entropy(logits, ids[hidden], reduction="none")


def _loaded(name: str, tokenizer: Any) -> tuple[tuple[nn.Module], list[nn.Parameter]]:
    """The model, in evaluation mode, and the weights of its new layers, which alone can learn."""
    where = locate(name)
    try:
        with quiet(reports=False):
            words = AutoTokenizer.from_pretrained(where).get_vocab()
            model, report = AutoModelForMaskedLM.from_pretrained(where, output_loading_info=True, use_safetensors=True)
    except (OSError, ValueError, KeyError) as error:
        line = str(error).strip().partition("\n")[0]
        problem = f"diffcse.generator = {name!r} is no masked language model ({line})"
        raise UserError(problem, "name a model such as distilbert-base-uncased, or its folder") from error
    if words != tokenizer.get_vocab() or tokenizer.mask_token_id is None:
        problem = f"diffcse.generator = {name!r} and the student read different words, or have no word [MASK]"
        raise UserError(problem, "choose a generator with the student's tokenizer, such as a smaller model of its kind")
    new = set(report["missing_keys"])
    model.float().eval().requires_grad_(False)
    table = model.get_input_embeddings().weight  # which the last layer shares
    return (model,), [w.requires_grad_(True) for key, w in model.named_parameters() if key in new and w is not table]
