#!/usr/bin/env python3
"""Makes the tiny ONNX models of the repositories here; they are committed, so that tests need no onnx.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install onnx==1.23.2
    /tmp/venv/bin/python tests/repositories/make_models.py

vector   x FP32 [n,4] -> y FP32 [n,4] = x + bias; bias FP32 [4] is an input with an initializer
rows     the same with bias FP32 [n,4], of which the file has one row
fixed    x FP32 [1,4] -> y FP32 [1,4]: no batch dimension
image    x FP32 [n,2,2] -> y FP32 [n,4]

Every folder of triton/ gets `vector` as 1/model.onnx, but for those named here.
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
FLOAT = TensorProto.FLOAT
OTHER_MODEL = {"no_batch_dimension": "fixed", "whole_shapes": "fixed", "reshape": "image",
               "reshape_of_other_size": "image", "optional_input_batched": "rows"}
OTHER_FILES = {"default_filename": ["1/net.onnx"],
               "version_specific": ["1/model.onnx", "3/model.onnx"],
               "version_all": ["1/model.onnx", "2/model.onnx"],
               "version_latest": ["1/model.onnx", "2/model.onnx", "3/model.onnx"]}


def value(name, shape):
    return helper.make_tensor_value_info(name, FLOAT, shape)


def model(nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                             producer_name="gradus-tests")
    onnx.checker.check_model(made)
    return made.SerializeToString()


MODELS = {
    "vector": model([helper.make_node("Add", ["x", "bias"], ["y"])],
                    [value("x", ["n", 4]), value("bias", [4])], [value("y", ["n", 4])],
                    [numpy_helper.from_array(np.zeros(4, np.float32), "bias")]),
    "rows": model([helper.make_node("Add", ["x", "bias"], ["y"])],
                  [value("x", ["n", 4]), value("bias", ["n", 4])], [value("y", ["n", 4])],
                  [numpy_helper.from_array(np.zeros((1, 4), np.float32), "bias")]),
    "fixed": model([helper.make_node("Neg", ["x"], ["y"])], [value("x", [1, 4])],
                   [value("y", [1, 4])]),
    "image": model([helper.make_node("Flatten", ["x"], ["y"])], [value("x", ["n", 2, 2])],
                   [value("y", ["n", 4])]),
}

for folder in sorted((HERE / "triton").iterdir()):
    for file in OTHER_FILES.get(folder.name, ["1/model.onnx"]):
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(MODELS[OTHER_MODEL.get(folder.name, "vector")])
