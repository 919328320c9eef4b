#!/usr/bin/env python3
"""Makes the tiny ONNX models of the tests; their files are committed, so that tests need no onnx.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install onnx==1.23.0
    /tmp/venv/bin/python tests/models/make_models.py

every_type   one Identity for each datatype, [n] -> [n]: what comes in goes out
scalar       x FP32 [] -> doubled FP32 []
log_or_copy  x FP32 [n] -> y FP32 [n]; model.onnx is log(x), NaN below 0; model.int8.onnx copies
busy         steps INT64 [1] -> done FP32 [1]: so many products of 96x96 matrices, one after
             another; the time of a run grows with `steps`
external     x FP32 [n] -> y FP32 [n], doubled: the factor lies in weights.bin (external data)
scaled       x FP32 [n,4] -> y FP32 [n,4] = x * scale + shift; scale FP32 [n,4], which is [[1,2,3,4]],
             and shift FP32 [4], which is 0, may be overridden; not so in model.int8.onnx
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent
IR_VERSION, OPSET = 8, 17


def save(path, nodes, inputs, outputs, initializers=(), **how):
    graph = helper.make_graph(nodes, "graph", inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                              ir_version=IR_VERSION, producer_name="gradus-tests")
    onnx.checker.check_model(model)
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path, **how)
    print(path.relative_to(HERE), path.stat().st_size, "bytes")


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def every_type():
    types = {"bool": TensorProto.BOOL, "uint8": TensorProto.UINT8, "uint16": TensorProto.UINT16,
             "uint32": TensorProto.UINT32, "uint64": TensorProto.UINT64, "int8": TensorProto.INT8,
             "int16": TensorProto.INT16, "int32": TensorProto.INT32, "int64": TensorProto.INT64,
             "fp16": TensorProto.FLOAT16, "fp32": TensorProto.FLOAT, "fp64": TensorProto.DOUBLE,
             "bf16": TensorProto.BFLOAT16, "bytes": TensorProto.STRING}
    save("every_type/1/model.onnx",
         [helper.make_node("Identity", [f"in_{name}"], [f"out_{name}"]) for name in types],
         [value(f"in_{name}", dtype, ["n"]) for name, dtype in types.items()],
         [value(f"out_{name}", dtype, ["n"]) for name, dtype in types.items()])


def scalar():
    save("scalar/1/model.onnx", [helper.make_node("Add", ["x", "x"], ["doubled"])],
         [value("x", TensorProto.FLOAT, [])], [value("doubled", TensorProto.FLOAT, [])])


def log_or_copy():
    for file, operator in {"model.onnx": "Log", "model.int8.onnx": "Identity"}.items():
        save(f"log_or_copy/1/{file}", [helper.make_node(operator, ["x"], ["y"])],
             [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])])


def busy():
    random = np.random.default_rng(1)
    matrix = (random.standard_normal((96, 96)) / 10).astype(np.float32)
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "matrix"], ["product"]),
         helper.make_node("Tanh", ["product"], ["next"]),
         helper.make_node("Identity", ["go_on"], ["still"])],
        "step", [value("i", TensorProto.INT64, []), value("go_on", TensorProto.BOOL, []),
                 value("state", TensorProto.FLOAT, [96, 96])],
        [value("still", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [96, 96])])
    save("busy/1/model.onnx",
         [helper.make_node("Squeeze", ["steps"], ["count"]),
          helper.make_node("Loop", ["count", "yes", "matrix"], ["last"], body=body),
          helper.make_node("ReduceSum", ["last", "axes"], ["sum"], keepdims=0),
          helper.make_node("Reshape", ["sum", "one"], ["done"])],
         [value("steps", TensorProto.INT64, [1])], [value("done", TensorProto.FLOAT, [1])],
         [numpy_helper.from_array(matrix, "matrix"),
          numpy_helper.from_array(np.array(True), "yes"),
          numpy_helper.from_array(np.array([0, 1], np.int64), "axes"),
          numpy_helper.from_array(np.array([1], np.int64), "one")])


def external():
    save("external/1/model.onnx", [helper.make_node("Mul", ["x", "factor"], ["y"])],
         [value("x", TensorProto.FLOAT, ["n"])], [value("y", TensorProto.FLOAT, ["n"])],
         [numpy_helper.from_array(np.array([2], np.float32), "factor")],
         save_as_external_data=True, location="weights.bin", size_threshold=0)


def scaled():
    scale, shift = np.array([[1, 2, 3, 4]], np.float32), np.zeros(4, np.float32)
    overridable = [value("scale", TensorProto.FLOAT, ["n", 4]), value("shift", TensorProto.FLOAT, [4])]
    for file, more in {"model.onnx": overridable, "model.int8.onnx": []}.items():
        save(f"scaled/1/{file}",
             [helper.make_node("Mul", ["x", "scale"], ["product"]),
              helper.make_node("Add", ["product", "shift"], ["y"])],
             [value("x", TensorProto.FLOAT, ["n", 4]), *more],
             [value("y", TensorProto.FLOAT, ["n", 4])],
             [numpy_helper.from_array(scale, "scale"), numpy_helper.from_array(shift, "shift")])


every_type()
scalar()
log_or_copy()
busy()
external()
scaled()
