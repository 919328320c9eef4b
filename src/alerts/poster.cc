#include "alerts/poster.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace gradus::alerts {
namespace {

constexpr std::size_t kErrorShown = 200;  // bytes of an answer's body
constexpr std::chrono::milliseconds kLongestWait = std::chrono::minutes(10);

struct Post {
  CURL* easy = nullptr;
  std::string body;
  std::string answer;
  char error[CURL_ERROR_SIZE] = "";
  std::size_t slot = 0;
};

std::size_t keep_begin(char* data, std::size_t, std::size_t size, void* into) noexcept {
  std::string& answer = static_cast<Post*>(into)->answer;
  answer.append(data, std::min(size, kErrorShown - std::min(kErrorShown, answer.size())));
  return size;
}

// Of a call that fails for want of memory or by our mistake alone.
void expect_ok(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "libcurl: %s failed\n", what);
  std::abort();
}

template <class Value>
void set(CURL* easy, CURLoption option, Value value) {
  expect_ok(curl_easy_setopt(easy, option, value) == CURLE_OK, "curl_easy_setopt");
}

}  // namespace

struct Poster::Curl {
  CURLM* multi = nullptr;
  curl_slist* headers = nullptr;
  std::vector<Post> posts;  // by slot; never resized
};

Poster::Poster(std::size_t slots, Duration timeout) : curl_(std::make_unique<Curl>()) {
  static std::once_flag once;
  std::call_once(once, [] {
    expect_ok(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "curl_global_init");
  });
  curl_->multi = curl_multi_init();
  expect_ok(curl_->multi != nullptr, "curl_multi_init");
  for (const char* header : {"Content-Type: application/json", "Expect:"}) {
    curl_->headers = curl_slist_append(curl_->headers, header);
  }
  const auto limit_ms =
      static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  curl_->posts.resize(slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    Post& post = curl_->posts[slot];
    post.slot = slot;
    post.easy = curl_easy_init();
    expect_ok(post.easy != nullptr, "curl_easy_init");
    set(post.easy, CURLOPT_PRIVATE, static_cast<void*>(&post));
    set(post.easy, CURLOPT_ERRORBUFFER, post.error);
    set(post.easy, CURLOPT_WRITEFUNCTION, &keep_begin);
    set(post.easy, CURLOPT_WRITEDATA, static_cast<void*>(&post));
    set(post.easy, CURLOPT_HTTPHEADER, curl_->headers);
    set(post.easy, CURLOPT_USERAGENT, "gradus");
    set(post.easy, CURLOPT_PROTOCOLS_STR, "http,https");
    set(post.easy, CURLOPT_NOSIGNAL, 1L);
    set(post.easy, CURLOPT_CONNECTTIMEOUT_MS, limit_ms);
    set(post.easy, CURLOPT_TIMEOUT_MS, limit_ms);
  }
}

Poster::~Poster() {
  for (const Post& post : curl_->posts) {
    curl_multi_remove_handle(curl_->multi, post.easy);  // nothing, if it is not under way
    curl_easy_cleanup(post.easy);
  }
  curl_multi_cleanup(curl_->multi);
  curl_slist_free_all(curl_->headers);
}

void Poster::start(std::size_t slot, const std::string& url, std::string body) {
  Post& post = curl_->posts.at(slot);
  post.body = std::move(body);
  post.answer.clear();
  post.error[0] = '\0';
  set(post.easy, CURLOPT_URL, url.c_str());
  set(post.easy, CURLOPT_POSTFIELDS, post.body.c_str());
  set(post.easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(post.body.size()));
  expect_ok(curl_multi_add_handle(curl_->multi, post.easy) == CURLM_OK, "curl_multi_add_handle");
}

std::vector<Reply> Poster::wait(Duration at_most) {
  const auto ms = std::clamp(std::chrono::ceil<std::chrono::milliseconds>(at_most),
                             std::chrono::milliseconds(0), kLongestWait);
  int running = 0;
  curl_multi_perform(curl_->multi, &running);
  int left = 0;
  std::vector<Reply> replies;
  const auto collect = [&] {
    while (const CURLMsg* message = curl_multi_info_read(curl_->multi, &left)) {
      CURL* const easy = message->easy_handle;
      const CURLcode result = message->data.result;
      void* found = nullptr;
      long status = 0;
      curl_easy_getinfo(easy, CURLINFO_PRIVATE, &found);
      curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
      curl_multi_remove_handle(curl_->multi, easy);
      const Post& post = *static_cast<Post*>(found);
      if (result == CURLE_OK) {
        replies.push_back({post.slot, status, post.answer});
      } else {
        replies.push_back(
            {post.slot, 0, post.error[0] != '\0' ? post.error : curl_easy_strerror(result)});
      }
    }
  };
  collect();
  if (!replies.empty()) return replies;
  curl_multi_poll(curl_->multi, nullptr, 0, static_cast<int>(ms.count()), nullptr);
  curl_multi_perform(curl_->multi, &running);
  collect();
  return replies;
}

void Poster::wake() { curl_multi_wakeup(curl_->multi); }

}  // namespace gradus::alerts
