/// Bytes as people read them.
#pragma once

#include <cstdio>

#include "proto/bytes.h"

namespace learn {

/// Prints "label  00 01 02 ..." in rows of 16.
inline void hex(const char* label, uroce::Bytes bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i % 16 == 0) std::printf("%s%-10s", i == 0 ? "" : "\n", i == 0 ? label : "");
    std::printf(" %02x", bytes[i]);
  }
  std::printf("\n");
}

}  // namespace learn
