// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/catalogue/errors.h"

#include <cerrno>
#include <cstdio>
#include <utility>

namespace uroce::ibv {
namespace {

thread_local std::string last_sentence;
bool settings_explained = false;

}  // namespace

std::string last_error() { return last_sentence; }

int refuse(int error, std::string sentence) {
  last_sentence = std::move(sentence);
  errno = error;
  return error;
}

void explain_settings() { settings_explained = true; }

void warn(const std::string& sentence) {
  if (settings_explained) std::fprintf(stderr, "uroce: %s\n", sentence.c_str());
}

int refuse_setting(int error, std::string sentence) {
  warn(sentence);
  return refuse(error, std::move(sentence));
}

std::nullptr_t refuse_null(int error, std::string sentence) {
  refuse(error, std::move(sentence));
  return nullptr;
}

int refuse_without_nic() {
  return refuse(EIO,
                "the NIC is gone: a fatal error, or it stayed with the parent of this process; open the device again");
}

}  // namespace uroce::ibv
