"""Commands and options of earlier releases: each is answered with one line that names what to use
now.
"""

OLD_COMMANDS = {
    "pretrain": "begin with a model from the hub, or train one as benchmarks/models shows",
}
OLD_OPTIONS = {
    "--or": "write --other-model",
    "--text": "write --text-column",
    "--title": "write --title-column",
    "--sentences": "write --max-texts",
    "--backbone": "write --model",
    "--domain": "write --labels",
    "--pairs": "write --labels",
    "--jobs": "write --workers",
    "--corpus": "write --documents, or name the text after the command",
    "--processes": "start it with torchrun --nproc-per-node N -m isotrope train",
    "--query-model": "leave it out: questions that a language model wrote can judge, as --labels",
    "--truncate": "leave it out: sentence-transformers' truncate_dim gives such a model",
    "--int8": "leave it out: onnxruntime's quantize_dynamic makes the graph smaller",
    "--precision": "leave it out: sentence-transformers' quantize_embeddings gives such vectors",
    "--sweep": "write sweep = {…} into the rows of the study's file",
    "--threads": "leave it out: every cell of a study has one thread",
    "--address": "set RAY_ADDRESS, which Ray reads",
    "--resume": "leave it out: the same command goes on",
    "--format": "leave it out: the name of the output says it (OUT.parquet, or a folder)",
    "--checkpoint-minutes": "leave it out, or set train.save_steps",
}
