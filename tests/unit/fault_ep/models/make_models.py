#!/usr/bin/env python3
"""Makes the tiny ONNX model of the fault provider's tests; its file is committed.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install onnx==1.23.2
    /tmp/venv/bin/python tests/unit/fault_ep/models/make_models.py

branches  up BOOL [], x FP32 [n], unread INT64 [2] -> y FP32 [n] = up ? x + 1 : -x
          (the branches read x from outside; no node reads `unread`)
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def branch(name, node):
    return helper.make_graph([node], name, [], [value(node.output[0], FLOAT, ["n"])])


graph = helper.make_graph(
    [helper.make_node("If", ["up"], ["y"],
                      then_branch=branch("plus", helper.make_node("Add", ["x", "one"], ["sum"])),
                      else_branch=branch("minus", helper.make_node("Neg", ["x"], ["negated"])))],
    "branches",
    [value("up", TensorProto.BOOL, []), value("x", FLOAT, ["n"]), value("unread", TensorProto.INT64, [2])],
    [value("y", FLOAT, ["n"])],
    [numpy_helper.from_array(np.array([1], np.float32), "one")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                          producer_name="gradus-tests")
onnx.checker.check_model(model)
onnx.save(model, Path(__file__).resolve().parent / "branches.onnx")
