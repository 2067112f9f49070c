"""What `errorfeedback` hands out, by the room of the package that it comes from."""

import inspect
from importlib import import_module

import errorfeedback
from errorfeedback import api
from errorfeedback.registry import members

ROOMS = {
    "problems": "What is minimised",
    "data": "Data sets",
    "estimators": "Estimators for scikit-learn",
    "methods": "Methods: how the gradient is estimated",
    "compressors": "Compressors: what of a vector is sent",
    "stepsizes": "Step sizes: how far",
    "directions": "Directions: what the server makes of the estimate",
    "downlinks": "Downlinks: how the step reaches the clients",
    "probes": "Probes: numbers that a rule asks for",
    "engines": "Engines: where the clients live",
    "runtime": "Runs",
    "planner": "Before a run: what to choose, and what it takes",
    "comparison": "Comparisons",
    "theory": "Theory",
    "storage": "Checkpoints",
    "interop": "PyTorch and JAX",
    "sparsity": "Who owns which feature",
    "core": "What a method of your own is handed",
    "clients": "The clients' side of an engine",
    "wire": "Messages",
}
"""The order of the page and its headings; a room that is not here comes last under its own name."""
INTERNAL = {api.discovered, members}


def names():
    """Every public name."""
    return [name for name in dir(errorfeedback) if _public(getattr(errorfeedback, name))]


def _public(value):
    return (inspect.isclass(value) or inspect.isfunction(value)) and value not in INTERNAL


def framework_names():
    """The names of `ef.torch` and `ef.jax`, as `torch.hook`."""
    for framework in errorfeedback.FRAMEWORKS:
        for name in import_module(f"errorfeedback.interop.{framework}").__all__:
            yield f"{framework}.{name}"


def value(name):
    """What `ef.NAME` is, `ef.torch.hook` among them."""
    framework, _, bare = name.rpartition(".")
    return getattr(import_module(f"errorfeedback.interop.{framework}") if framework else errorfeedback, bare)


def room(name):
    """The folder that a public name comes from."""
    return getattr(errorfeedback, name).__module__.split(".")[1]


def by_room():
    """(heading, names) in the order of the page."""
    every = names()
    rooms = sorted(
        {room(name) for name in every} | {"interop"},
        key=lambda r: (r not in ROOMS, list(ROOMS).index(r) if r in ROOMS else r),
    )
    for each in rooms:
        found = list(framework_names()) if each == "interop" else [name for name in every if room(name) == each]
        yield ROOMS.get(each, each.capitalize()), found
