"""Malformed requests: each gets its status and a JSON error that names what is wrong, and the next
good request on the server is answered."""
import copy
import gzip
import json
import zlib
from dataclasses import dataclass, field

import numpy as np
import pytest

import samples

IMAGE = samples.fashion_images()[0]
GOOD = {"inputs": [{"name": "image", "shape": [1, 1, 28, 28], "datatype": "FP32",
                    "data": [round(float(v), 4) for v in IMAGE.ravel()]}]}
TYPES = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "fp32",
         "fp64", "bytes")
INFER = "/v2/models/fashion/infer"


@dataclass
class Bad:
    what: str
    body: bytes = b""
    status: int = 400
    says: tuple = ()  # parts of the error's text, in lower case
    method: str = "POST"
    path: str = INFER
    headers: dict = field(default_factory=dict)


TABLE = []


def bad(*arguments, **keywords):
    TABLE.append(Bad(*arguments, **keywords))


def changed(what, says, change, **keywords):
    """The good request with one change."""
    request = copy.deepcopy(GOOD)
    change(request)
    bad(what, json.dumps(request).encode(), says=says, **keywords)


def tensor(what, says, **members):
    """The good request with members of its input replaced; None takes one away."""
    def change(request):
        for name, value in members.items():
            if value is None:
                del request["inputs"][0][name]
            else:
                request["inputs"][0][name] = value
    changed(what, says, change)


def request_member(what, says, **members):
    changed(what, says, lambda request: request.update(members))


def binary(what, says, *, size=3136, behind=IMAGE.tobytes(), header_length=None, **members):
    """The good request in binary form; `size` is its binary_data_size."""
    request = copy.deepcopy(GOOD)
    del request["inputs"][0]["data"]
    request["inputs"][0].update({"parameters": {"binary_data_size": size}, **members})
    head = json.dumps(request).encode()
    length = str(len(head)) if header_length is None else header_length(len(head))
    bad(what, head + behind, says=says, headers={"Inference-Header-Content-Length": length})


def one_type(what, says, name, data):
    """A request to `every_type` whose only bad input is `in_<name>`."""
    others = {"bool": [True], "bytes": ["a"]}
    inputs = [{"name": f"in_{t}", "shape": [1], "datatype": t.upper(),
               "data": data if t == name else others.get(t, [1])} for t in TYPES]
    if name not in TYPES:
        inputs.append({"name": f"in_{name}", "shape": [1], "datatype": name.upper(), "data": data})
    bad(what, json.dumps({"inputs": inputs}).encode(), says=says,
        path="/v2/models/every_type/infer")


def languages(what, says, *, ids=(257, 65), mask=(1, 1), drop=None):
    inputs = [{"name": name, "shape": [1, 2], "datatype": "INT64", "data": list(data)}
              for name, data in (("input_ids", ids), ("attention_mask", mask)) if name != drop]
    bad(what, json.dumps({"inputs": inputs}).encode(), says=says, path="/v2/models/langid/infer")


# The JSON itself.
bad("no body", says=())
bad("text", b"hello")
bad("half of the JSON", json.dumps(GOOD).encode()[:200])
bad("JSON and more", json.dumps(GOOD).encode() + b"}")
bad("an array", b"[]", says=("object",))
bad("a number", b"3", says=("object",))
bad("null", b"null", says=("object",))
bad("bytes that are not UTF-8", b'{"inputs":[],"id":"\xff\xfe"}')
bad("zero bytes", b"\0" * 64)
bad("an unclosed string", b'{"inputs')
bad("a bare minus", b'{"inputs":[{"name":"image","shape":[-],"datatype":"FP32","data":[]}]}')

# The request's members.
bad("no inputs", b"{}", says=("inputs",))
request_member("inputs null", ("inputs",), inputs=None)
request_member("inputs an object", ("inputs",), inputs={"image": []})
request_member("inputs empty", ("image", "missing"), inputs=[])
request_member("an input that is a number", ("inputs",), inputs=[1])
request_member("id a number", ("id",), id=7)
request_member("parameters an array", ("parameters",), parameters=[])
request_member("outputs an object", ("outputs",), outputs={})
request_member("an output that is text", ("outputs",), outputs=["logits"])
request_member("an output without name", ("name",), outputs=[{}])
request_member("an unknown output", ("probabilities", "logits"),
               outputs=[{"name": "probabilities"}])
request_member("an output twice", ("logits", "twice"),
               outputs=[{"name": "logits"}, {"name": "logits"}])
request_member("binary_data a number", ("binary_data",),
               outputs=[{"name": "logits", "parameters": {"binary_data": 3}}])
request_member("binary_data_output text", ("binary_data_output",),
               parameters={"binary_data_output": "yes"})
request_member("timeout text", ("timeout",), parameters={"timeout": "soon"})
request_member("timeout negative", ("timeout",), parameters={"timeout": -1})
request_member("min_level text", ("min_level",), parameters={"min_level": "gpu"})
request_member("max_level a fraction", ("max_level",), parameters={"max_level": 1.5})
request_member("min_level below zero", ("min_level",), parameters={"min_level": -1})
request_member("min_level over max_level", ("min_level", "max_level"),
               parameters={"min_level": 3, "max_level": 1})
request_member("min_level past the last level", ("min_level",), parameters={"min_level": 4})

# A tensor's members.
tensor("no name", ("name",), name=None)
tensor("name a number", ("name",), name=1)
tensor("an unknown name", ("picture", "image"), name="picture")
tensor("no datatype", ("image", "datatype"), datatype=None)
tensor("an unknown datatype", ("image", "fp12"), datatype="FP12")
tensor("a datatype in lower case", ("image", "fp32"), datatype="fp32")
tensor("another datatype", ("image", "fp64", "fp32"), datatype="FP64")
tensor("no shape", ("image", "shape"), shape=None)
tensor("shape a number", ("image", "shape"), shape=784)
tensor("a negative dimension", ("image",), shape=[1, 1, -28, -28])
tensor("a fractional dimension", ("image", "shape"), shape=[1.5, 1, 28, 28])
tensor("a dimension of text", ("image", "shape"), shape=["1", 1, 28, 28])
tensor("dimensions whose product overflows", ("image",), shape=[2 ** 40, 1, 2 ** 40, 28])
tensor("a dimension over 64 bits", ("image", "shape"), shape=[2 ** 65, 1, 28, 28])
tensor("too few dimensions", ("image", "[1,784]", "[-1,1,28,28]"), shape=[1, 784])
tensor("too many dimensions", ("image", "[-1,1,28,28]"), shape=[1, 1, 1, 28, 28])
tensor("another fixed dimension", ("image", "[1,1,56,14]"), shape=[1, 1, 56, 14])
tensor("no data", ("image", "data"), data=None)
tensor("data text", ("image", "data"), data="pixels")
tensor("data a number", ("image", "data"), data=5)
tensor("too few elements", ("image", "783", "784"), data=GOOD["inputs"][0]["data"][:-1])
tensor("too many elements", ("image", "784"), data=GOOD["inputs"][0]["data"] + [0])
tensor("text among the elements", ("image",), data=["0"] + GOOD["inputs"][0]["data"][1:])
tensor("null among the elements", ("image",), data=[None] + GOOD["inputs"][0]["data"][1:])
tensor("true among the elements", ("image",), data=[True] + GOOD["inputs"][0]["data"][1:])
tensor("an object among the elements", ("image",), data=[{}] + GOOD["inputs"][0]["data"][1:])
tensor("a nested array of the wrong size", ("image",), data=[[[[0] * 28] * 27]])
tensor("an element too large for FP32", ("image",), data=[1e39] + GOOD["inputs"][0]["data"][1:])
tensor("parameters of an input an array", ("image", "parameters"), parameters=[])
tensor("data beside binary_data_size", ("image",), parameters={"binary_data_size": 3136})
changed("an input twice", ("image", "twice"),
        lambda request: request["inputs"].append(request["inputs"][0]))
changed("an input too many", ("extra", "image"),
        lambda request: request["inputs"].append({**request["inputs"][0], "name": "extra"}))
languages("an input too few", ("attention_mask", "missing"), drop="attention_mask")
languages("a fraction for INT64", ("input_ids",), ids=(257, 1.5))
languages("a number over INT64", ("input_ids",), ids=(257, 2 ** 63))
one_type("a negative UINT8", ("in_uint8",), "uint8", [-1])
one_type("a UINT8 over 255", ("in_uint8",), "uint8", [256])
one_type("an INT8 under -128", ("in_int8",), "int8", [-129])
one_type("a number for BOOL", ("in_bool",), "bool", [2])
one_type("a number for BYTES", ("in_bytes",), "bytes", [1])
one_type("FP16 in JSON", ("in_fp16", "binary"), "fp16", [1])
one_type("BF16 in JSON", ("in_bf16", "binary"), "bf16", [1])

# Binary tensors.
binary("a header length that is no number", ("inference-header-content-length",),
       header_length=lambda n: "many")
binary("a negative header length", ("inference-header-content-length",),
       header_length=lambda n: "-1")
binary("a header length past the body", ("inference-header-content-length",),
       header_length=lambda n: "1000000")
binary("a header length over 64 bits", ("inference-header-content-length",),
       header_length=lambda n: str(2 ** 70))
binary("a header length that cuts the JSON", (), header_length=lambda n: str(n - 10))
binary("a header length that passes the JSON", (), header_length=lambda n: str(n + 10))
binary("too few bytes", ("image", "3136"), behind=IMAGE.tobytes()[:-4])
binary("bytes left over", ("1",), behind=IMAGE.tobytes() + b"x")
binary("a binary size under the shape's", ("image", "3132", "784"), size=3132,
       behind=IMAGE.tobytes()[:-4])
binary("a binary size over the shape's", ("image", "3140", "784"), size=3140,
       behind=IMAGE.tobytes() + bytes(4))
binary("a negative binary size", ("image", "binary_data_size"), size=-1)
binary("a binary size of text", ("image", "binary_data_size"), size="3136")
binary("a binary size over 63 bits", ("image",), size=2 ** 63)
binary("a shape over the bytes", ("image",), shape=[2, 1, 28, 28])
tensor("a binary size and nothing behind the JSON", ("image",), data=None,
       parameters={"binary_data_size": 3136})
bad("a raw body of a wrong size", IMAGE.tobytes()[:-1], says=("image",),
    headers={"Inference-Header-Content-Length": "0"})
for label, elements in [("a BYTES length past the end", b"\x05\0\0\0abcd"),
                        ("BYTES cut inside a length", b"\x01\0\0"),
                        ("BYTES with one element too many", b"\x01\0\0\0a\x01\0\0\0b")]:
    text = json.dumps({"inputs": [
        {"name": f"in_{t}", "shape": [1], "datatype": t.upper(), **(
            {"parameters": {"binary_data_size": len(elements)}} if t == "bytes" else
            {"data": [True] if t == "bool" else [1]})} for t in TYPES]}).encode()
    bad(label, text + elements, says=("in_bytes",), path="/v2/models/every_type/infer",
        headers={"Inference-Header-Content-Length": str(len(text))})

# Paths, methods, headers.
bad("an unknown path", path="/v3", method="GET", status=404)
bad("a path below a known one", path="/v2/health/alive", method="GET", status=404)
bad("an unknown model", json.dumps(GOOD).encode(), path="/v2/models/nobody/infer", status=404,
    says=("nobody",))
bad("an unknown model's metadata", path="/v2/models/nobody", method="GET", status=404,
    says=("nobody",))
bad("an unknown model's ladder", path="/v2/models/nobody/ladder", method="GET", status=404,
    says=("nobody",))
bad("an unknown version", json.dumps(GOOD).encode(), path="/v2/models/fashion/versions/9/infer",
    status=404, says=("9",))
bad("a version that is no number", path="/v2/models/fashion/versions/latest", method="GET",
    status=404)
bad("an empty model name", path="/v2/models//infer", status=404)
bad("a name that climbs out of the repository", path="/v2/models/..%2f..%2fetc/ready", method="GET",
    status=404)
bad("dots for a name", path="/v2/models/../infer", status=404)
bad("GET where POST belongs", path=INFER, method="GET", status=405)
bad("POST where GET belongs", path="/v2/models/fashion", status=405)
bad("DELETE", path="/v2/models/fashion", method="DELETE", status=405)
bad("an unknown content coding", json.dumps(GOOD).encode(), status=415, says=("br",),
    headers={"Content-Encoding": "br"})
bad("gzip that is none", json.dumps(GOOD).encode(), says=("gzip",),
    headers={"Content-Encoding": "gzip"})
bad("gzip cut off", gzip.compress(json.dumps(GOOD).encode())[:-9], says=("gzip",),
    headers={"Content-Encoding": "gzip"})
bad("deflate that is none", b"\xff" * 50, says=("deflate",),
    headers={"Content-Encoding": "deflate"})
bad("deflate with more behind it", zlib.compress(json.dumps(GOOD).encode()) + b"more",
    says=("deflate",), headers={"Content-Encoding": "deflate"})
for value in ("soon", "-5", "1e3x"):
    bad(f"gradus-timeout-ms: {value}", json.dumps(GOOD).encode(), says=("gradus-timeout-ms",),
        headers={"gradus-timeout-ms": value})
for name, value in (("gradus-min-level", "gpu"), ("gradus-max-level", "-1"),
                    ("gradus-min-level", "9")):
    bad(f"{name}: {value}", json.dumps(GOOD).encode(), says=(name.replace("gradus-", "")[:3],),
        headers={name: value})


def test_the_table_is_long_enough():
    assert len(TABLE) >= 60
    assert len({row.what for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.what.replace(" ", "-"))
def test_is_refused_clearly(demo, row):
    answer = demo.client.request(row.method, row.path, row.body or None, row.headers)
    assert answer.status == row.status, answer.body
    for part in row.says:
        assert part in answer.error.lower()
    if row.status == 405:
        assert answer.headers["Allow"]
    good = demo.client.post(INFER, json.dumps(GOOD))
    assert good.outputs["logits"].argmax() == 9


def test_a_connection_serves_on_after_every_bad_body(demo):
    connection = demo.client.connection()
    bodies = [row for row in TABLE if row.path == INFER and row.method == "POST"]
    for row in bodies:
        demo.client.post(INFER, row.body, row.headers, connection=connection)
        good = demo.client.post(INFER, json.dumps(GOOD), connection=connection)
        assert good.outputs["logits"].argmax() == 9, row.what
    connection.close()


def test_a_batch_of_no_pictures_is_answered_or_refused_clearly(demo):
    answer = demo.client.infer("fashion", {"image": np.zeros((0, 1, 28, 28), np.float32)},
                               binary_output=True)
    if answer.status == 200:
        assert answer.outputs["logits"].shape == (0, 10)
    else:
        assert answer.status == 400 and "image" in answer.error


@pytest.mark.parametrize("what, tokens, status", [
    ("a token that is not in the vocabulary", np.full((1, 5), 9999, np.int64), (400,)),
    ("a text longer than the model can take", np.full((1, 300), 65, np.int64), (400, 500))])
def test_what_only_a_run_finds_wrong_is_no_failure_of_a_level(demo, what, tokens, status):
    before = demo.levels("langid")
    for _ in range(4):  # more than open a breaker
        answer = demo.client.infer("langid", {"input_ids": tokens,
                                              "attention_mask": np.ones_like(tokens)})
        assert answer.status in status and answer.error, (what, answer.body)
    after = demo.levels("langid")
    for level in before:
        assert after[level]["failed"] == before[level]["failed"]
        assert after[level]["breaker"] == "closed"
    assert demo.ladder("langid")["current_level"] == 1
