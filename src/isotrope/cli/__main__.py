"""``python -m isotrope.cli``, as torchrun starts it."""

from isotrope.cli.main import main

main()
