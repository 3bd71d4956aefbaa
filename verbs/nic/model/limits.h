// SPDX-License-Identifier: Apache-2.0
// Every maximum of the device in one place, as ibv_query_device reports it.
#pragma once

#include <cstdint>

namespace uroce::nic {

inline constexpr std::uint32_t kFirstQpn = 0x11;              ///< 0 and 1 are SMI and GSI; users know rxe's 17.
inline constexpr std::uint32_t kMaxQp = 0x10000 - kFirstQpn;  ///< Local part of a QPN is 16 bits.
inline constexpr std::uint32_t kMaxQpWr = 32768;
inline constexpr std::uint32_t kMaxSge = 32;
inline constexpr std::uint32_t kMaxInline = 512;
inline constexpr std::uint32_t kMaxSrq = 65536;
inline constexpr std::uint32_t kMaxSrqWr = 32768;
inline constexpr std::uint32_t kMaxSrqSge = kMaxSge;
inline constexpr std::uint32_t kMaxCq = 65536;
inline constexpr std::uint32_t kMaxCqe = 1u << 22;
inline constexpr std::uint32_t kMaxMr = 1u << 20;
inline constexpr std::uint32_t kMaxMw = 1u << 20;
inline constexpr std::uint32_t kMaxPd = 65536;
inline constexpr std::uint32_t kMaxAh = 65536;
inline constexpr std::uint32_t kMaxMulticastGroups = 256;    ///< Each takes a socket.
inline constexpr std::uint32_t kMaxMulticastQps = 256;       ///< In one group.
inline constexpr std::uint32_t kMaxRdAtomic = 128;           ///< Per QP, as initiator and as target.
inline constexpr std::uint32_t kMaxMessageBytes = 1u << 31;  ///< IBTA Vol 1, 9.7.1.

}  // namespace uroce::nic
