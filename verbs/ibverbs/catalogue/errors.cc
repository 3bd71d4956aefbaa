// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/catalogue/errors.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace uroce::ibv {
namespace {

/// Without a destructor: destructors of the program call verbs, and come later than those of threads.
constexpr std::size_t kLongestSentence = 1024;
thread_local std::array<char, kLongestSentence> last_sentence{};
bool settings_explained = false;
std::atomic<bool> refusals_explained = false;
thread_local int silent_refusals = 0;

}  // namespace

std::string last_error() { return last_sentence.data(); }

int refuse(int error, std::string_view sentence) {
  const bool is_news = sentence != last_sentence.data();
  const std::size_t size = std::min(sentence.size(), kLongestSentence - 1);
  std::memmove(last_sentence.data(), sentence.data(), size);
  last_sentence.at(size) = '\0';
  if (is_news && silent_refusals == 0 && refusals_explained.load(std::memory_order_relaxed)) {
    std::fprintf(stderr, "uroce: %s: %s\n", std::strerror(error), last_sentence.data());
  }
  errno = error;
  return error;
}

void explain_settings() { settings_explained = true; }

void warn(const std::string& sentence) {
  if (settings_explained) std::fprintf(stderr, "uroce: %s\n", sentence.c_str());
}

void explain_refusals(bool wanted) { refusals_explained.store(wanted, std::memory_order_relaxed); }

SilentRefusals::SilentRefusals() { ++silent_refusals; }
SilentRefusals::~SilentRefusals() { --silent_refusals; }

int refuse_setting(int error, const std::string& sentence) {
  const SilentRefusals said;
  warn(sentence);
  return refuse(error, sentence);
}

std::nullptr_t refuse_null(int error, std::string_view sentence) {
  refuse(error, sentence);
  return nullptr;
}

int refuse_without_nic() {
  return refuse(EIO,
                "the NIC is gone: a fatal error, or it stayed with the parent of this process; open the device again");
}

}  // namespace uroce::ibv
