"""Run under torchrun by tests: trains and leaves every rank's objective, encoder and head, to compare."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from safetensors.torch import save_file

import isotrope
import isotrope.run.prepare as prepare_module

torch.set_num_threads(1)
table, backbone, output, batch, dropout, *more = sys.argv[1:]
built: list[Any] = []
build = prepare_module.build_objective


def keep(*arguments: Any, **options: Any) -> Any:
    built.append(build(*arguments, **options))
    return built[-1]


prepare_module.build_objective = keep
isotrope.train(
    table, backbone=backbone, output=output, dev="none", test="none", positive="positive", text="text",
    overrides=[
        f"train.batch_size={batch}", f"encoder.dropout={dropout}", "train.learning_rate=1e-3", "encoder.pooling=mean",
        "train.save_steps=1000", "train.eval_steps=1000", *more,
    ],
)  # fmt: skip
state = {name.replace("model.module.", "model."): value.contiguous() for name, value in built[0].state_dict().items()}
save_file(state, f"{output}-{os.environ['RANK']}.safetensors")
