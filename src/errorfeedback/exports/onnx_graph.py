"""score = intercept + sum over columns, as an ONNX graph in float64, the raw table in.

Every column of a table is an input of shape (rows, 1): numbers as double (missing: NaN), dates as double days since 1970,
text as string (missing: the empty string). A number adds coefficient * value (the median of training where it is missing);
text adds the row of a table of coefficients that its value names, and nothing where training did not see it. A model of a
matrix has one input `X` of shape (rows, features). Outputs: `label` and `probabilities` (or `scores`, where the loss has
none) for classes, `prediction` for numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import singledispatchmethod
from pathlib import Path
from typing import Any

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.data.encoding import YEAR, Category, Columns, Number
from errorfeedback.estimators.class_models import LOGISTIC, REST
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import Saved
from errorfeedback.exports.base import Export
from errorfeedback.extras import import_extra

OPSETS = {"": 17, "ai.onnx.ml": 3}
IR = 8
"""The format of the file: onnxruntime 1.14 and later read it."""
ROWS = "rows"
TINY = 1e-300
"""Where no class is likely at all, one against the rest, all are alike."""


class Onnx(Export):
    """An .onnx file."""

    name = "onnx"
    file = "model.onnx"

    def write(self, saved: Saved, path: Path) -> None:
        _onnx().save(to_onnx(saved), path)


def _onnx(module: str = "onnx") -> Any:
    return import_extra(module, "an ONNX file")


def to_onnx(saved: Saved) -> Any:
    """The model as an onnx.ModelProto, checked."""
    graph = Graph()
    coef = np.atleast_2d(saved.model.coef_).astype(np.float64)
    scores = graph.scores(saved, coef, np.atleast_1d(saved.model.intercept_).astype(np.float64))
    if isinstance(saved.model, EF21Classifier):
        graph.classes(saved.model, scores)
    else:
        graph.numbers(saved.model.loss, scores)
    return graph.model()


@dataclass(eq=False)
class Graph:
    """A graph as it grows; a value is known by its name."""

    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    inputs: list[Any] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def scores(self, saved: Saved, coef: Floats, intercept: Floats) -> str:
        """(rows, models)."""
        if not isinstance(saved.encoding, Columns):
            X = self._input("X", "DOUBLE", coef.shape[1], "the features, as the model was trained with them")
            return self.node("Add", self.node("MatMul", X, self.constant(coef.T)), self.constant(intercept))
        total, first = self.constant(intercept), 0
        for column in saved.encoding.columns:
            last = first + len(column.names)
            total = self.node("Add", total, self._part(column, coef[:, first:last].T))
            first = last
        return total

    @singledispatchmethod
    def _part(self, column: Any, weights: Floats) -> str:
        raise TypeError(f"a column of {type(column).__name__} has no ONNX form")

    @_part.register
    def _(self, column: Number, weights: Floats) -> str:
        """(rows, models): what a column of numbers adds."""
        about = "days since 1970" if column.origin is not None else "numbers"
        given = self._input(column.name, "DOUBLE", 1, f"{about}; NaN where one is missing")
        missing = self.node("IsNaN", given)
        value = given if column.fill is None else self.node("Where", missing, self.constant([column.fill]), given)
        slope = weights[:1]
        if column.origin is not None:
            value = self.node("Sub", value, self.constant([column.origin]))
            slope = slope / YEAR  # here: onnxruntime makes a factor between two nodes a float32
        added = self.node("MatMul", value, self.constant(slope))
        if not column.marked:
            return added
        mark = self.node("Cast", missing, to=self._type("DOUBLE"))
        return self.node("Add", added, self.node("MatMul", mark, self.constant(weights[1:])))

    @_part.register
    def _(self, column: Category, weights: Floats) -> str:
        """(rows, models): what a column of text adds."""
        given = self._input(column.name, "STRING", 1, "text; empty where it is missing")
        keys = [*column.values, *([""] if column.marked else [])]
        if len(set(keys)) < len(keys):
            raise ValueError(
                f"column {column.name!r} has empty text among its values and missing text too, which strings of ONNX cannot "
                "tell apart; give the empty one a name, or export to sklearn"
            )
        table = np.vstack([weights, np.zeros((1, weights.shape[1]))])  # the last: text that training did not see
        number = {"keys_strings": keys, "values_int64s": list(range(len(keys))), "default_int64": len(keys)}
        places = self.node("LabelEncoder", given, domain="ai.onnx.ml", **number)
        flat = self.node("Reshape", places, self.constant([-1], np.int64))
        return self.node("Gather", self.constant(table), flat, axis=0)

    def classes(self, model: EF21Classifier, scores: str) -> None:
        """The label, and the probabilities or scores."""
        labels = model.classes_.tolist()
        if len(labels) == 2:
            above = self.node("Greater", scores, self.constant([0.0]))
            best = self.node("Reshape", self.node("Cast", above, to=self._type("INT64")), self.constant([-1], np.int64))
        else:
            best = self.node("ArgMax", scores, axis=1, keepdims=0)
        kind = "STRING" if isinstance(labels[0], str) else "DOUBLE" if isinstance(labels[0], float) else "INT64"
        dtype = {"STRING": object, "DOUBLE": np.float64, "INT64": np.int64}[kind]
        self._output("label", kind, [ROWS], self.node("Gather", self.constant(labels, dtype), best, axis=0))
        if model.loss == LOGISTIC:
            p = self._probabilities(scores, len(labels), model.multi_class_ == REST)
            self._output("probabilities", "DOUBLE", [ROWS, len(labels)], p)
        else:
            self._output("scores", "DOUBLE", [ROWS, 1 if len(labels) == 2 else len(labels)], scores)

    def _probabilities(self, scores: str, count: int, rest: bool) -> str:
        if count == 2:
            p = self.node("Sigmoid", scores)
            return self.node("Concat", self.node("Sub", self.constant([1.0]), p), p, axis=1)
        if not rest:
            return self.node("Softmax", scores, axis=1)
        each = self.node("Max", self.node("Sigmoid", scores), self.constant([TINY]))
        return self.node("Div", each, self.node("ReduceSum", each, self.constant([1], np.int64), keepdims=1))

    def numbers(self, loss: str, scores: str) -> None:
        """What is expected: the score, or for counts its exponential."""
        said = self.node("Exp", scores) if loss == "poisson" else scores
        flat = self.node("Reshape", said, self.constant([-1], np.int64))
        self._output("prediction", "DOUBLE", [ROWS], flat)

    def node(self, kind: str, *given: str, domain: str = "", **attributes: Any) -> str:
        """What an operator gives."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(_onnx("onnx.helper").make_node(kind, list(given), [name], domain=domain, **attributes))
        return name

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(_onnx("onnx.numpy_helper").from_array(np.asarray(values, dtype=dtype), name))
        return name

    def model(self) -> Any:
        """The finished model."""
        helper = _onnx("onnx.helper")
        graph = helper.make_graph(self.nodes, "errorfeedback", self.inputs, self.outputs, self.constants)
        opsets = [helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=IR, producer_name="errorfeedback")
        _onnx("onnx.checker").check_model(made)
        return made

    def _input(self, name: str, kind: str, width: int, about: str) -> str:
        helper = _onnx("onnx.helper")
        self.inputs.append(helper.make_tensor_value_info(name, self._type(kind), [ROWS, width], doc_string=about))
        return name

    def _output(self, name: str, kind: str, shape: list[Any], value: str) -> None:
        helper = _onnx("onnx.helper")
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, self._type(kind), shape))

    @staticmethod
    def _type(kind: str) -> int:
        number: int = getattr(_onnx().TensorProto, kind)
        return number
