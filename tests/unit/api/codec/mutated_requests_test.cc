// Random damage to good requests: whatever comes, the answer is a request whose tensors are sound
// or an error that is the client's, and what is answered to it is valid JSON.
#include <gtest/gtest.h>

#include <random>

#include "api/codec/infer_response.h"
#include "api/codec/metadata.h"
#include "unit/api/codec/bodies.h"

namespace gradus::api {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kMutations = 4'000;
#else
constexpr int kMutations = 20'000;
#endif

struct Seed {
  std::string bytes;
  std::optional<std::size_t> json_length;
};

std::vector<Seed> seeds() {
  const std::string mixed =
      R"({"id":"7","parameters":{"timeout":5000,"min_level":0,"max_level":3,"binary_data_output":)"
      R"(true},"inputs":[{"name":"a","shape":[2,2],"datatype":"FP32","parameters":)"
      R"({"binary_data_size":16}},{"name":"b","shape":[3],"datatype":"BYTES","parameters":)"
      R"({"binary_data_size":17}},{"name":"c","shape":[2],"datatype":"INT64","data":[-1,2]}],)"
      R"("outputs":[{"name":"a","parameters":{"binary_data":false}},{"name":"b"},{"name":"c"}]})";
  const std::string json =
      R"({"inputs":[{"data":[["a","\u0000\ud83d\ude00"],["","x"]],"name":"s","shape":[2,2],)"
      R"("datatype":"BYTES"},{"name":"f","shape":[2,3],"datatype":"FP32","data":[[1.5,NaN,-0.0],)"
      R"(["Infinity",-1e-3,3]]},{"name":"d","shape":[1,2],"datatype":"FP64","data":[0.1,1e300]},)"
      R"({"name":"t","shape":[2],"datatype":"BOOL","data":[true,false]},)"
      R"({"name":"z","shape":[0,4],"datatype":"UINT8","data":[]}],"extra":{"k":[null,{"v":1}]}})";
  return {
      {mixed + raw(std::vector<float>{1, 2, 3, 4}) + bytes_tensor({"ab", "", "xyz"}), mixed.size()},
      {json, std::nullopt}};
}

class Damage {
 public:
  explicit Damage(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

  void apply(std::string& text) {
    static constexpr std::string_view kTelling = "{}[]\",:\\-+.eE0199NaIntruefls \n\0\xff\x80u";
    const std::size_t at = below(text.size());
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(below(256));
        break;
      case 1:
        text[at] = kTelling[below(kTelling.size())];
        break;
      case 2:
        text.insert(at, 1, kTelling[below(kTelling.size())]);
        break;
      case 3:
        text.erase(at, 1 + below(8));
        break;
      case 4:
        text.insert(at, 1, ' ');
        break;
      case 5:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 6:
        text.insert(at, text.substr(below(text.size()), below(40)));
        break;
      default:
        text.resize(at + 1);
    }
  }

 private:
  std::mt19937 random_;
};

// Echoes the inputs as outputs, in the forms that the request asked for.
void check_answer(const DecodedInfer& decoded, int& encoded_count) {
  serving::Response response{"m", "1", decoded.request.id, {}, {}};
  for (const NamedView& input : decoded.request.inputs) {
    ASSERT_TRUE(check_byte_size(input.tensor));
    response.outputs.push_back(
        {input.name,
         {input.tensor.dtype, input.tensor.shape, input.tensor.data, decoded.request.storage}});
  }
  const auto encoded = encode_infer(response, decoded.forms);
  if (!encoded) {
    ASSERT_EQ(encoded.error().code, Code::kInvalid) << encoded.error().message;
    ASSERT_EQ(json_fault(error_json(encoded.error().message)), "");
    return;
  }
  ASSERT_EQ(json_fault(encoded->head), "") << encoded->head;
  ++encoded_count;
}

TEST(MutatedRequests, AreDecodedSoundlyOrRefused) {
  Damage damage(20260101);
  int good = 0;
  int refused = 0;
  int encoded = 0;
  for (int i = 0; i < kMutations; ++i) {
    for (const Seed& seed : seeds()) {
      std::string bytes = seed.bytes;
      for (std::size_t n = 1 + damage.below(3) / 2; n > 0 && !bytes.empty(); --n)
        damage.apply(bytes);
      std::optional<std::size_t> length = seed.json_length;
      if (length && damage.below(4) == 0) length = damage.below(bytes.size() + 2);
      const std::size_t after = damage.below(2) * 64;
      const auto decoded = decode_infer(
          "m", "", body_of(bytes, damage.below(4), after, "}],\"0"[damage.below(5)]), length);
      if (decoded) {
        ++good;
        ASSERT_NO_FATAL_FAILURE(check_answer(*decoded, encoded)) << bytes;
      } else {
        ++refused;
        ASSERT_EQ(decoded.error().code, Code::kInvalid) << decoded.error().message;
        ASSERT_FALSE(decoded.error().message.empty());
        ASSERT_EQ(json_fault(error_json(decoded.error().message)), "");
      }
    }
  }
  // Damage that always or never broke a request would test nothing.
  EXPECT_GT(good, kMutations / 20);
  EXPECT_GT(encoded, kMutations / 25);
  EXPECT_GT(refused, kMutations / 2);
}

TEST(MutatedRequests, TheSeedsThemselvesAreGood) {
  for (const Seed& seed : seeds()) {
    int encoded = 0;
    const auto decoded = decode_infer("m", "", body_of(seed.bytes), seed.json_length);
    ASSERT_TRUE(decoded) << decoded.error().message;
    check_answer(*decoded, encoded);
    EXPECT_EQ(encoded, 1);
  }
}

}  // namespace
}  // namespace gradus::api
