#!/usr/bin/env python3
"""Makes the tiny ONNX models of the runtime's tests; their files are committed.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install onnx==1.23.2
    /tmp/venv/bin/python tests/unit/runtime/models/make_models.py

lower     text BYTES [n] -> lowered BYTES [n]; string operators run on the CPU provider alone
mixed     lower twice, and x FP32 [n] -> y FP32 [n] = relu(x): a third of it fits an accelerator
wide      x FP32 [batch, n] -> y FP32 [batch, 1]: runs with n = 224 only
table     row INT64 [n] -> value FP32 [n]: a table of two rows, any other row is refused
burst     x FP32 [n] -> y FP32 [n] = sqrt(x) + x: needs memory as its input grows
sequence  x FP32 [n] -> a sequence of tensors, which cannot be served
any_rank  x FP32 of any number of dimensions, which cannot be served
quotient  x FP32 [n], y FP32 [n] -> x / y as FP32, FP16, BF16 and FP64
old       x FP32 [n] -> y FP32 [n] = x * 2, where 2 is an input with an initializer, of IR version 3
outer     x FP32 [n,1], y FP32 [1,m] -> product FP32 [n,m]: small inputs may need any memory
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).resolve().parent


def save(name, nodes, inputs, outputs, initializers=(), check=True, ir_version=8):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=ir_version,
                              producer_name="gradus-tests")
    if check:
        onnx.checker.check_model(model)
    onnx.save(model, HERE / f"{name}.onnx")


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def lower(source, target):
    return helper.make_node("StringNormalizer", [source], [target], case_change_action="LOWER",
                            locale="C")


FLOAT, STRING, INT64 = TensorProto.FLOAT, TensorProto.STRING, TensorProto.INT64
save("lower", [lower("text", "lowered")], [value("text", STRING, ["n"])],
     [value("lowered", STRING, ["n"])])
save("mixed",
     [helper.make_node("Relu", ["x"], ["y"]), lower("text", "once"), lower("once", "lowered")],
     [value("x", FLOAT, ["n"]), value("text", STRING, ["n"])],
     [value("y", FLOAT, ["n"]), value("lowered", STRING, ["n"])])
save("wide", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", FLOAT, ["batch", "n"])],
     [value("y", FLOAT, ["batch", 1])],
     [numpy_helper.from_array(np.ones((224, 1), np.float32), "w")])
save("table", [helper.make_node("Gather", ["rows", "row"], ["value"])],
     [value("row", INT64, ["n"])], [value("value", FLOAT, ["n"])],
     [numpy_helper.from_array(np.array([0.5, 1.5], np.float32), "rows")])
save("burst", [helper.make_node("Sqrt", ["x"], ["root"]), helper.make_node("Add", ["root", "x"], ["y"])],
     [value("x", FLOAT, ["n"])], [value("y", FLOAT, ["n"])])
save("sequence", [helper.make_node("SequenceConstruct", ["x", "x"], ["both"])],
     [value("x", FLOAT, ["n"])],
     [helper.make_tensor_sequence_value_info("both", FLOAT, None)])
save("any_rank", [helper.make_node("Relu", ["x"], ["y"])], [value("x", FLOAT, None)],
     [value("y", FLOAT, None)], check=False)  # the checker wants a shape, ONNX Runtime does not
save("quotient",
     [helper.make_node("Div", ["x", "y"], ["fp32"]),
      helper.make_node("Cast", ["fp32"], ["fp16"], to=TensorProto.FLOAT16),
      helper.make_node("Cast", ["fp32"], ["bf16"], to=TensorProto.BFLOAT16),
      helper.make_node("Cast", ["fp32"], ["fp64"], to=TensorProto.DOUBLE)],
     [value("x", FLOAT, ["n"]), value("y", FLOAT, ["n"])],
     [value("fp32", FLOAT, ["n"]), value("fp16", TensorProto.FLOAT16, ["n"]),
      value("bf16", TensorProto.BFLOAT16, ["n"]), value("fp64", TensorProto.DOUBLE, ["n"])])
save("old", [helper.make_node("Mul", ["x", "factor"], ["y"])],
     [value("x", FLOAT, ["n"]), value("factor", FLOAT, [1])], [value("y", FLOAT, ["n"])],
     [numpy_helper.from_array(np.array([2], np.float32), "factor")], ir_version=3)
save("outer", [helper.make_node("Mul", ["x", "y"], ["product"])],
     [value("x", FLOAT, ["n", 1]), value("y", FLOAT, [1, "m"])], [value("product", FLOAT, ["n", "m"])])
