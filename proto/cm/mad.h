// SPDX-License-Identifier: Apache-2.0
// The management datagram (MAD) of 256 bytes in a UD SEND to QP 1, and its header.
#pragma once

#include "proto/field.h"

namespace uroce::proto::cm {

/// Common MAD header (IBTA Vol 1, 13.4.3).
struct Mad {
  static constexpr std::size_t kSize = 24;
  using BaseVersion = Field<Mad, "base_version", std::uint8_t, 0, 8>;
  using Class = Field<Mad, "class", std::uint8_t, 8, 8>;
  using ClassVersion = Field<Mad, "class_version", std::uint8_t, 16, 8>;
  using Method = Field<Mad, "method", std::uint8_t, 24, 8>;
  using Status = Field<Mad, "mad_status", std::uint16_t, 32, 16>;
  using ClassSpecific = Field<Mad, "class_specific", std::uint16_t, 48, 16>;
  using TransactionId = Field<Mad, "tid", std::uint64_t, 64, 64>;
  using Attribute = Field<Mad, "attribute", std::uint16_t, 128, 16>;
  using Resv = Field<Mad, "resv", std::uint16_t, 144, 16>;
  using Modifier = Field<Mad, "modifier", std::uint32_t, 160, 32>;
  using All =
      Fields<BaseVersion, Class, ClassVersion, Method, Status, ClassSpecific, TransactionId, Attribute, Resv, Modifier>;
};
static_assert(Mad::All::tile(Mad::kSize));

inline constexpr std::size_t kMadSize = 256;
inline constexpr std::uint32_t kManagementQpn = 1;              ///< The general services interface.
inline constexpr std::uint32_t kManagementQkey = 0x8001'0000u;  ///< Its well-known Q_Key.

// Values of communication management (13.4.4, 16.7).
inline constexpr std::uint8_t kBaseVersion = 1;
inline constexpr std::uint8_t kClass = 0x07;
inline constexpr std::uint8_t kClassVersion = 2;
inline constexpr std::uint8_t kMethodSend = 0x03;

}  // namespace uroce::proto::cm
