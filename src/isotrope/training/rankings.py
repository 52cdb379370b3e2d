"""An encoder as a student of rankings: it learns where a better ranking would find the documents of
each query.

RankCSE's ListNet (Liu et al., ACL 2023, Eq. 4, https://aclanthology.org/2023.acl-long.771). The
vectors of documents are computed once and stay as they are, so a step reads short queries only, and
each of them ranks a hundred documents.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainingArguments
from torch import Tensor, nn

from isotrope.encoder import save
from isotrope.encoder.embed import Vectors
from isotrope.encoder.length import limit_length
from isotrope.encoder.prompts import refuse_routes, role_prompt, used_prompt
from isotrope.evaluation.search import RankedLists
from isotrope.post.ranking_map import ranking_loss
from isotrope.store.files import RecordLog
from isotrope.training.callbacks import ReleaseMemory
from isotrope.training.checkpoints import SealCheckpoint, checkpoint_step, last_checkpoint
from isotrope.training.fit import train_from
from isotrope.training.trainer import Trainer

SCALE = 20.0  # of the student's cosines: one over the temperature 0.05
LEARNING_RATE = 1e-4
WARMUP_SHARE = 0.1
WEIGHT_DECAY = 0.01
SAVE_STEPS = 100
QUERY_LENGTH = 128  # tokens


class RankingLoss(nn.Module):
    """`ranking_loss` of a batch of queries: their documents, of vectors (M, D), in the lists of the
    teacher.
    """

    def __init__(self, model: SentenceTransformer, documents: Vectors, lists: RankedLists) -> None:
        super().__init__()
        self.model = model
        self.step = 0
        vectors = torch.from_numpy(np.asarray(documents, dtype=np.float32))
        unit = F.normalize(vectors, dim=-1)
        scores = torch.from_numpy(np.asarray(lists.scores, dtype=np.float32))
        self.documents: Tensor = nn.Buffer(unit, persistent=False)
        self.places: Tensor = nn.Buffer(torch.from_numpy(lists.documents), persistent=False)
        self.scores: Tensor = nn.Buffer(scores, persistent=False)

    def forward(self, features: list[dict[str, Any]], labels: Tensor) -> Tensor:
        """The texts of a batch and the numbers of its queries (B,) -> ()."""
        self.step += self.training
        embeddings = self.model(features[0])["sentence_embedding"]
        queries = F.normalize(embeddings, dim=-1)  # (B, D)
        documents = self.documents[self.places[labels]]  # (B, K, D)
        return ranking_loss(queries, documents, self.scores[labels], SCALE)


def learn_rankings(
    model: SentenceTransformer,
    queries: list[str],
    documents: Vectors,
    lists: RankedLists,
    *,
    texts: int,
    batch: int,
    output: Path,
    seed: int = 0,
) -> Path:
    """Train a model, in place, to rank as the lists do, and write it to ``output/model``. A later
    call goes on.

    Args:
        model: the student.
        queries: (Q,) texts.
        documents: (M, D) the student's vectors of the documents, before training.
        lists: what each query should find.
        texts: queries to read; more than Q is more than one epoch.
        batch: queries of a step.
        output: a folder for checkpoints and the model.
        seed: of the order and the dropout.

    Raises:
        Stopped: Ctrl-C. The same call goes on.
        UserError: the student reads queries in another way than documents; the training diverged.
    """
    refuse_routes(model, "the model")
    saved = output / "model"
    if saved.is_dir():
        return saved
    checkpoints = output / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    start = last_checkpoint(checkpoints, lambda line: None)
    loss = RankingLoss(model, documents, lists)
    loss.step = checkpoint_step(start)  # the dropout of a step depends only on its number
    batch = min(batch, len(queries))
    trainer = Trainer(
        model=model,
        args=_arguments(model, checkpoints, texts // batch, batch, seed),
        loss=loss,
        callbacks=[ReleaseMemory(), SealCheckpoint(RecordLog(output / "metrics.jsonl"))],
        train_dataset=Dataset.from_dict({"query": queries, "label": list(range(len(queries)))}),
    )
    with limit_length(model, QUERY_LENGTH):
        train_from(trainer, start)
    trainer.refuse_divergence()
    save(model, saved)
    return saved


def _arguments(
    model: SentenceTransformer, output: Path, steps: int, batch: int, seed: int
) -> SentenceTransformerTrainingArguments:
    """The settings of the trainer, for steps of ``batch`` queries."""
    return SentenceTransformerTrainingArguments(
        output_dir=str(output),
        max_steps=max(1, steps),
        per_device_train_batch_size=batch,
        learning_rate=LEARNING_RATE,
        warmup_steps=WARMUP_SHARE,
        weight_decay=WEIGHT_DECAY,
        save_steps=SAVE_STEPS,
        logging_steps=50,
        seed=seed,
        data_seed=seed,
        dataloader_drop_last=True,
        dataloader_pin_memory=False,
        prompts={"query": role_prompt(model, "query") or used_prompt(model)},
        use_cpu=model.device.type == "cpu",
        report_to="none",
        disable_tqdm=True,
    )
