#!/usr/bin/env python3
"""Makes tiny.onnx, the benchmark's small MLP; the file is committed, so that nobody needs onnx.

    python3 -m venv build/deps/bench/venv && build/deps/bench/venv/bin/pip install onnx==1.23.0
    build/deps/bench/venv/bin/python bench/models/make_tiny.py

x FP32 [batch, 32] -> y FP32 [batch, 10]: two hidden layers of 64, weights from a fixed seed.
"""
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

IR_VERSION, OPSET = 8, 17
WIDTHS = [32, 64, 64, 10]


def main():
    random = np.random.default_rng(1)
    nodes, weights, last = [], [], "x"
    for layer, (wide_in, wide_out) in enumerate(zip(WIDTHS, WIDTHS[1:]), start=1):
        weight = random.standard_normal((wide_in, wide_out)) * np.sqrt(2 / wide_in)
        bias = random.standard_normal(wide_out) / 10
        weights += [numpy_helper.from_array(weight.astype(np.float32), f"w{layer}"),
                    numpy_helper.from_array(bias.astype(np.float32), f"b{layer}")]
        final = layer == len(WIDTHS) - 1
        result = "y" if final else f"h{layer}"
        nodes.append(helper.make_node("Gemm", [last, f"w{layer}", f"b{layer}"], [result]))
        if not final:
            nodes.append(helper.make_node("Relu", [result], [f"r{layer}"]))
        last = f"r{layer}"
    graph = helper.make_graph(
        nodes, "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTHS[0]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", WIDTHS[-1]])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)],
                              ir_version=IR_VERSION, producer_name="gradus-bench")
    onnx.checker.check_model(model)
    path = Path(__file__).resolve().parent / "tiny.onnx"
    onnx.save(model, path)
    print(path.name, path.stat().st_size, "bytes")


main()
