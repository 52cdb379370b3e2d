"""Run under torchrun by tests: trains and leaves every rank's objective, encoder and head, to
compare.

The word ``+`` among the settings begins those of a further training: its output's name ends with
its number.
"""

import os
import sys
from itertools import groupby
from typing import Any

import torch
from safetensors.torch import save_file

import isotrope
import isotrope.training.prepare as prepare_module

torch.set_num_threads(1)
table, backbone, output, batch, dropout, *more = sys.argv[1:]
built: list[Any] = []
build = prepare_module.build_objective


def keep(*arguments: Any, **options: Any) -> Any:
    built.append(build(*arguments, **options))
    return built[-1]


prepare_module.build_objective = keep
trainings = [
    list(words) for plus, words in groupby(more, lambda word: word == "+") if not plus
] or [[]]
for number, overrides in enumerate(trainings):
    folder = f"{output}{number or ''}"
    isotrope.train(
        table,
        model=backbone,
        output=folder,
        dev="none",
        labels="none",
        positive="positive",
        text_column="text",
        overrides=[
            f"train.batch_size={batch}",
            f"encoder.dropout={dropout}",
            "train.learning_rate=1e-3",
            "encoder.pooling=mean",
            "train.save_steps=1000",
            "train.eval_steps=1000",
            *overrides,
        ],
    )
    state = built[-1].state_dict()
    kept = {
        name.replace("model.module.", "model."): value.contiguous() for name, value in state.items()
    }
    save_file(kept, f"{folder}-{os.environ['RANK']}.safetensors")
