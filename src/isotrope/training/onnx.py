"""A whole model as one ONNX graph: token ids in, vectors out. It runs without torch."""

import logging
import warnings
from collections.abc import Sequence
from contextlib import redirect_stdout
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from torch import Tensor, nn

from isotrope.console.plain import plain_console
from isotrope.console.progress import watch
from isotrope.contract.features import language_model
from isotrope.encoder.load import load
from isotrope.encoder.locate import public_name
from isotrope.encoder.prompts import ROLES, Role, one_route, routed, used_prompt
from isotrope.errors import UserError, check_known, needs
from isotrope.report.card import GRAPH, Card, graph_card
from isotrope.store.files import check_replaceable, new_folder, write_json, write_text, writing

FARTHEST = 1e-4  # of a vector's length: how far ONNX and torch may be apart
_PACKAGES = ("onnxscript", "onnxruntime")
INPUTS = ("input_ids", "attention_mask")
_SENTENCES = (
    "Rain.",
    "The quick brown fox jumps over the lazy dog.",
    "Where can I change the address of my order?",
    "Water boils at 100 °C at sea level, and earlier on a mountain.",
    "def mean(values): return sum(values) / len(values)",
    "Zwei Hunde laufen durch den Schnee, während die Kinder zusehen.",
    "彼女は毎朝公園を散歩します。",
    "The patient was given 20 mg twice a day; after a week the fever was gone.",
    "Our service was not available between 9:10 and 9:45 UTC. We are sorry, and we explain below"
    " what went wrong.",
)
# The last is longer than most models read.
_TEXTS = (*_SENTENCES, " ".join(_SENTENCES), " ".join(_SENTENCES * 80))


def export_onnx(
    model: str | Path,
    output: str | Path,
    *,
    pooling: str | None = None,
    role: Role | None = None,
    console: Console | None = None,
) -> Path:
    """Write a model as an ONNX graph with pooling, post steps and normalisation inside, and its
    tokenizer beside it.

    The folder holds ``model.onnx``, ``tokenizer.json``, ``export.json`` and ``README.md`` with a
    snippet that needs onnxruntime and tokenizers alone. Inputs are ``input_ids`` and
    ``attention_mask``, int64 (N, L), for any N and L; the output is ``sentence_embedding``, float32
    (N, D).

    Before the folder appears, its files are opened again and compared with torch on texts of one
    token to more than the model reads, alone and in a padded batch. The difference must be below
    1e-4 of each vector's length.

    Args:
        model: as `isotrope.load` takes it.
        output: a new folder, or one that an earlier export wrote; it is given back.
        pooling: as `isotrope.load` takes it.
        role: ``query`` or ``document``, for a model that reads them by two routes: each is a graph
            of its own.
        console: where to report; None: nowhere.

    Raises:
        UserError: the extra ``onnx`` is not installed; no such model, or not one that can be
            written as a graph; its vectors differ from torch's; ``output`` holds something.
    """
    folder = Path(output)
    console = console or plain_console(quiet=True)
    for package in _PACKAGES:
        needs("onnx", package)
    check_replaceable(folder, "onnx")
    encoder = _load_route(model, pooling, role)
    tokenizer = _tokenizer(encoder, str(model))

    with (
        watch("writing the graph", console),
        writing(folder.parent),
        new_folder(folder, "onnx") as draft,
    ):
        write_text(draft / "tokenizer.json", tokenizer.to_str())
        _write_graph(encoder, tokenizer, str(model), draft / GRAPH)
        prompt = used_prompt(encoder)
        expected = np.asarray(encoder.encode(list(_TEXTS), show_progress_bar=False))  # (N, D)
        difference = _check_graph(draft / GRAPH, expected, prompt, str(model))
        facts = _facts(encoder, public_name(model), role, prompt) | {
            "dimensions": expected.shape[1],
            "largest_difference": difference,
        }
        write_json(draft / "export.json", facts)

        card = Card.of(model)
        if pooling is not None:  # the verdict was on another pooling
            card = card.model_copy(update={"verdict": None})
        write_text(draft / "README.md", graph_card(facts, card))
    console.print(
        f"equal to torch: the largest difference is {difference:.1g} of a vector's length"
    )
    return folder


def _load_route(model: str | Path, pooling: str | None, role: Role | None) -> SentenceTransformer:
    """The model, or one of its routes, in float32 on the CPU."""
    if role:
        check_known("role =", role, ROLES)
    encoder = load(model, pooling, device="cpu", packed=False).float().eval()
    if role:
        return one_route(encoder, role)
    if routed(encoder):
        problem = f"{model} reads queries and documents by two routes"
        remedy = "export each into a folder of its own, with --role query and --role document"
        raise UserError(problem, remedy, code="two-routes")
    return encoder


def _check_graph(graph: Path, expected: np.ndarray[Any, Any], prompt: str, model: str) -> float:
    """Compare a graph with torch's vectors (N, D) of `_TEXTS`, alone and in a padded batch -> the
    largest difference.
    """
    alone = run_onnx(graph, _TEXTS, prompt, batch_size=1)
    padded = run_onnx(graph, _TEXTS, prompt, batch_size=len(_TEXTS))
    difference = max(farthest_apart(alone, expected), farthest_apart(padded, expected))
    if not difference <= FARTHEST:  # NaN too
        problem = (
            f"{model}: its ONNX vectors differ from torch's by {difference:.2g} of their length"
            f" (most: {FARTHEST:g})"
        )
        remedy = "nothing was written; use the model as it is"
        raise UserError(problem, remedy, code="graph-differs")
    return difference


def _facts(
    encoder: SentenceTransformer, model: str, role: Role | None, prompt: str
) -> dict[str, Any]:
    """What ``export.json`` holds of the model."""
    facts: dict[str, Any] = {"model": model}
    if role:
        facts["role"] = role
    packages = ("isotrope", "torch", *_PACKAGES, "transformers")
    return facts | {
        "max_length": encoder.max_seq_length,
        "prompt": prompt,
        "prompts": {name: text for name, text in encoder.prompts.items() if text},
        "versions": {package: version(package) for package in packages},
    }


class _Graph(nn.Module):
    """The model as a function of token ids and mask, (N, L) each -> (N, D)."""

    def __init__(self, encoder: SentenceTransformer) -> None:
        super().__init__()
        self.encoder = nn.Sequential(*encoder)
        self.dimensions = encoder.truncate_dim

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        features = self.encoder({"input_ids": input_ids, "attention_mask": attention_mask})
        vectors: Tensor = features["sentence_embedding"][:, : self.dimensions]
        return vectors


def _tokenizer(encoder: SentenceTransformer, model: str) -> Tokenizer:
    """The model's tokenizer, which cuts and pads by itself."""
    slow: Any = encoder.tokenizer
    reason = ""
    if language_model(encoder) is None or not hasattr(slow, "backend_tokenizer"):
        reason = "has no transformer with a fast tokenizer (tokenizer.json)"
    elif any(getattr(module, "include_prompt", True) is False for module in encoder):
        reason = "leaves the prompt out of its pooling"
    if reason:
        remedy = "use it with sentence-transformers, or export another model"
        raise UserError(f"{model} {reason}", remedy, code="no-graph")

    tokenizer = Tokenizer.from_str(slow.backend_tokenizer.to_str())
    tokenizer.enable_truncation(encoder.max_seq_length, direction=slow.truncation_side)
    tokenizer.enable_padding(
        direction=slow.padding_side,
        pad_id=slow.pad_token_id,
        pad_type_id=slow.pad_token_type_id,
        pad_token=slow.pad_token,
    )
    return tokenizer


@torch.no_grad()
def _write_graph(
    encoder: SentenceTransformer, tokenizer: Tokenizer, model: str, path: Path
) -> None:
    """Trace the model on two sentences, for every number and length of sentences."""
    ids, mask = _rows(tokenizer, _SENTENCES[1:3])
    example = (torch.from_numpy(ids), torch.from_numpy(mask))
    batch = torch.export.Dim("batch")
    length = torch.export.Dim("length", max=encoder.max_seq_length)
    free = {0: batch, 1: length}
    loudest = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # what torch logs of an error is in the error
    try:
        with redirect_stdout(StringIO()), warnings.catch_warnings(action="ignore"):
            program = torch.onnx.export(
                _Graph(encoder).eval(),
                example,
                input_names=list(INPUTS),
                output_names=["sentence_embedding"],
                dynamic_shapes=dict.fromkeys(INPUTS, free),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = str(error.__cause__ or error).strip().splitlines()[0]
        problem = f"{model} cannot be written as a graph ({cause})"
        raise UserError(problem, "use it with sentence-transformers", code="no-graph") from error
    finally:
        logging.disable(loudest)
    assert program is not None  # only the older exporter returns nothing
    program.save(path)


def run_onnx(
    graph: Path, texts: Sequence[str], prompt: str = "", batch_size: int = 32
) -> np.ndarray[Any, Any]:
    """Texts (N,) -> vectors (N, D), as the card's snippet does it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(graph.with_name("tokenizer.json")))
    vectors = []
    for start in range(0, len(texts), batch_size):
        batch = [prompt + text for text in texts[start : start + batch_size]]
        inputs = dict(zip(INPUTS, _rows(tokenizer, batch), strict=True))
        vectors.append(session.run(None, inputs)[0])
    return np.concatenate(vectors)


def _rows(tokenizer: Tokenizer, texts: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    """Token ids and mask, (N, L) each."""
    encodings = tokenizer.encode_batch(list(texts))
    ids = np.array([encoding.ids for encoding in encodings], np.int64)
    mask = np.array([encoding.attention_mask for encoding in encodings], np.int64)
    return [ids, mask]


def farthest_apart(vectors: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """The largest distance of two vectors, as a part of the expected one's length."""
    lengths = np.linalg.norm(expected, axis=1)
    distances = np.linalg.norm(vectors - expected, axis=1)
    return float((distances / lengths).max())
