"""How a command calls the function of the package that does its work."""

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from isotrope.console.plain import plain_console
from isotrope.console.processes import process_number
from isotrope.console.progress import watch
from isotrope.console.threads import limit_threads


def load_function(target: str, *, several_processes: bool = False) -> Callable[..., Any]:
    """Import a function, ``module:name``, with its libraries, which take seconds.

    Args:
        target: The function.
        several_processes: It may run in several processes. All others refuse that.
    """
    module, _, name = target.partition(":")
    with watch("loading the libraries", plain_console(stderr=True, quiet=process_number() > 0)):
        function: Callable[..., Any] = getattr(import_module(module), name)
        limit_threads()
    if not several_processes:
        import_module("isotrope.training.processes").refuse_several(name)
    return function


def call(target: str, options: Mapping[str, Any], *, several_processes: bool = False) -> Any:
    """Call a function, ``module:name``, with the options that the user gave.

    An option that was not given (None) is left out, so that the function's own default counts. A
    function that takes a console gets that of standard error.
    """
    function = load_function(target, several_processes=several_processes)
    arguments = {name: value for name, value in options.items() if value is not None}
    if "console" in inspect.signature(function).parameters and not several_processes:
        arguments["console"] = plain_console(stderr=True)
    return function(**arguments)
