// SPDX-License-Identifier: Apache-2.0
// Bytes from and to hexadecimal text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/bytes.h"

namespace uroce::proto::test {

inline std::vector<std::uint8_t> from_hex(std::string_view text) {
  std::vector<std::uint8_t> bytes;
  int digits = 0;
  unsigned value = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    value = value << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    if (++digits % 2 == 0) bytes.push_back(static_cast<std::uint8_t>(value));
  }
  return bytes;
}

inline std::string to_hex(Bytes bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

/// An RC SEND ONLY of one byte and its ACK, as the kernel's rxe sent them over IPv4.
inline const std::vector<std::uint8_t> kSendFrame = from_hex(
    "525400770012 525400770011 0800 4500 0030 5b07 4000 4011 cb05 0a4d000b 0a4d000c c144 12b7 001c 0000"
    "0430ffff 00000012 80000100 10000000 626c9294");
inline const std::vector<std::uint8_t> kAckFrame = from_hex(
    "525400770011 525400770012 0800 4500 0030 a083 4000 4011 8589 0a4d000c 0a4d000b c144 12b7 001c 0000"
    "1100ffff 00000012 00000100 1f000001 9a1ea61a");
/// The SEND over IPv6.
inline const std::vector<std::uint8_t> kSendFrame6 = from_hex(
    "525400770012 525400770011 86dd 60000000 001c 11 40 fd770000000000000000000000000011"
    "fd770000000000000000000000000012 fa24 12b7 001c 0000 0430ffff 0000007a 80000100 10000000 b0e4e159");

}  // namespace uroce::proto::test
