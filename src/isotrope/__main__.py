"""``python -m isotrope``, as torchrun starts it."""

from isotrope.cli.main import main

main()
