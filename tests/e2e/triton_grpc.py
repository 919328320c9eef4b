"""What users of Triton's own gRPC client do, run against PORT: `triton_grpc.py PORT FOLDER`.

Run by test_triton_client.py with the client's packages on the path; imports nothing of the other
tests, whose packages are others. FOLDER holds image.npy, [1, 1, 28, 28] float32 of class 9.
"""
import queue
import sys

import numpy as np
import tritonclient.grpc as triton

PORT, FOLDER = sys.argv[1:]
IMAGE = np.load(f"{FOLDER}/image.npy")


def image_input():
    image = triton.InferInput("image", IMAGE.shape, "FP32")
    image.set_data_from_numpy(IMAGE)
    return image


def expect_9(result):
    assert result.as_numpy("logits").shape == (1, 10)
    assert result.as_numpy("logits").argmax() == 9


def refused(call):
    try:
        call()
    except triton.InferenceServerException as error:
        return error.status(), error.message()
    raise AssertionError("it was answered")


client = triton.InferenceServerClient(f"127.0.0.1:{PORT}")
assert client.is_server_live() and client.is_server_ready()
assert client.is_model_ready("fashion") and client.is_model_ready("fashion", "1")
assert not client.is_model_ready("nosuch")
assert client.get_server_metadata().name == "gradus"
metadata = client.get_model_metadata("fashion", as_json=True)
assert metadata["inputs"][0]["name"] == "image", metadata
assert client.get_model_repository_index(as_json=True)["models"][0]["state"] == "READY"

outputs = [triton.InferRequestedOutput("logits")]
answer = client.infer("fashion", [image_input()], outputs=outputs, request_id="7", priority=1,
                      timeout=5_000_000, client_timeout=5, parameters={"min_level": 1})
expect_9(answer)
assert answer.get_response().id == "7"
assert answer.get_response().parameters["level"].int64_param == 1
expect_9(client.infer("fashion", [image_input()], compression_algorithm="gzip"))

answers = queue.Queue()
client.async_infer("fashion", [image_input()], lambda result, error: answers.put((result, error)))
result, error = answers.get(timeout=10)
assert error is None
expect_9(result)

client.start_stream(lambda result, error: answers.put((result, error)))
for name in ("fashion", "nosuch", "fashion"):
    client.async_stream_infer(name, [image_input()], request_id=name,
                              enable_empty_final_response=True)
for name in ("fashion", "nosuch", "fashion"):
    result, error = answers.get(timeout=10)
    if name == "nosuch":
        assert result is None and "nosuch" in error.message()
    else:
        expect_9(result)
        assert result.get_response().parameters["triton_final_response"].bool_param
client.stop_stream()

assert refused(lambda: client.infer("nosuch", [image_input()]))[0] == "StatusCode.NOT_FOUND"
wrong = triton.InferInput("image", [1], "FP32")
wrong.set_data_from_numpy(np.zeros(1, np.float32))
status, text = refused(lambda: client.infer("fashion", [wrong]))
assert status == "StatusCode.INVALID_ARGUMENT" and "'image'" in text
ranked = [triton.InferRequestedOutput("logits", class_count=3)]
status, text = refused(lambda: client.infer("fashion", [image_input()], outputs=ranked))
assert status == "StatusCode.INVALID_ARGUMENT" and "classification" in text
for call in (client.get_model_config, client.load_model, client.unload_model):
    assert refused(lambda call=call: call("fashion"))[0] == "StatusCode.UNIMPLEMENTED"
assert refused(client.get_inference_statistics)[0] == "StatusCode.UNIMPLEMENTED"
client.close()
print("all is as it is with Triton")
