// SPDX-License-Identifier: Apache-2.0
// The language of fuzz_responder and fuzz_requester: a Setup, then records of the commands below. A field that is 0
// means what is usual, in the place where the victim is.
#pragma once

#include "tests/judged/fuzz/archive.h"

namespace uroce::fuzz {

/// The memory regions of the victim, by their index in the commands. All but `kForeign` are in the QPs' PD.
enum Region : std::uint8_t {
  kOpen,      ///< Every right.
  kReadable,  ///< Remote read.
  kLocal,     ///< Local write: where receives and READs go by default.
  kWritable,  ///< Remote write; ends where the address space ends.
  kForeign,   ///< Every right, in another PD.
  kOdd,       ///< Every right, but an aligned address is not an aligned pointer.
  kRegions
};

/// The attributes of both QPs: how far each is from the default, modulo its range.
struct Setup {
  std::uint8_t mtu = 0;  ///< 0: 256 bytes.
  std::uint8_t rd_atomic = 0, dest_rd_atomic = 0, retry_cnt = 0, rnr_retry = 0, timeout = 0, min_rnr_timer = 0;
  std::uint8_t flags = 0;
  std::uint32_t sq_psn = 0, rq_psn = 0;
  enum Flag : std::uint8_t {
    kIpv6 = 1,
    kSignalAll = 2,
    kTinyCq = 4,
    kTinyWindow = 8,
    kNothingPosted = 16,
    kUc = 32,  ///< UC instead of RC ...
    kUd = 64,  ///< ... or UD.
  };

  template <class Archive>
  void fields(Archive& a) {
    a(mtu), a(rd_atomic), a(dest_rd_atomic), a(retry_cnt), a(rnr_retry), a(timeout), a(min_rnr_timer), a(flags);
    a(sq_psn), a(rq_psn);
  }
};

/// Which command a record is: its kind modulo kCommands. With kHold added, the answers are not yet taken from the NIC.
enum Command : std::uint8_t {
  kPacket,    ///< PacketSpec
  kRaw,       ///< BTH and what follows, with the destination QP and the ICRC put in.
  kAsIs,      ///< The whole UDP payload.
  kAgain,     ///< AgainSpec
  kHonest,    ///< HonestSpec
  kTime,      ///< TimeSpec
  kPostSend,  ///< SendSpec
  kPostRecv,  ///< RecvSpec
  kModify,    ///< ModifySpec
  kRegister,  ///< RegisterSpec
  kCommands,
  kHold = 0x80,
};

/// A packet of any opcode: fields, size and place as here, the ICRC right.
struct PacketSpec {
  std::uint8_t opcode = 0;
  std::uint8_t qp = 0;
  std::int8_t psn = 0;  ///< Requests: from the PSN that the victim expects. Responses: from the oldest open one.
  std::uint8_t flags = 0;
  std::uint16_t size = 0;  ///< Payload. 0: the MTU in FIRST and MIDDLE, else 8 bytes. n: n-1 bytes.
  std::uint8_t region = 0;
  std::int16_t offset = 0;     ///< From the region's first byte.
  std::uint32_t length = 0;    ///< DmaLength. 0: the payload in ONLY, 2 MTUs in FIRST, 64 bytes for READ. n: n-1 bytes.
  std::uint8_t wrong_key = 0;  ///< Added to the R_Key, and to the Q_Key.
  std::uint8_t syndrome = 0;   ///< 0: ACK without a credit limit. n: n-1.
  std::uint8_t pad = 0;        ///< 0: what the size wants. n: n-1.
  std::uint8_t cut = 0;        ///< Bytes missing before the ICRC.
  std::uint64_t operand = 0;   ///< For atomics, also what a response brings.
  std::uint64_t compare = 0;   ///< For atomics; the MSN of a response.
  // Then pairs (offset, value): bytes to overwrite before the ICRC is made.

  enum Flag : std::uint8_t {
    kNoAckReq = 1,
    kSolicited = 2,
    kBadIcrc = 4,
    kStranger = 8,  ///< From an address that is not the peer's.
    kIpId = 16,     ///< ICRC made with an IPv4 Identification.
    kMarked = 32,   ///< ECN: congestion experienced.
    kWrongPkey = 64,
    kOtherQpn = 128,  ///< To a QP that does not exist.
  };
  template <class Archive>
  void fields(Archive& a) {
    a(opcode), a(qp), a(psn), a(flags), a(size), a(region), a(offset), a(length);
    a(wrong_key), a(syndrome), a(pad), a(cut), a(operand), a(compare);
  }
};

/// A packet that was delivered before, byte for byte: 0 is the latest.
struct AgainSpec {
  std::uint8_t back = 0;
  template <class Archive>
  void fields(Archive& a) {
    a(back);
  }
};

/// The peer answers the oldest requests that the victim sent and that it has not answered, as it should.
struct HonestSpec {
  std::uint8_t qp = 0;
  std::uint8_t more = 0;      ///< Requests beyond the first.
  std::uint8_t syndrome = 0;  ///< 0: success. n: n-1 in an ACK packet instead of the right answer.
  template <class Archive>
  void fields(Archive& a) {
    a(qp), a(more), a(syndrome);
  }
};

struct TimeSpec {
  std::uint8_t log2_us = 0;  ///< 0: to the next deadline. n: 2^n microseconds, modulo 2^26.
  template <class Archive>
  void fields(Archive& a) {
    a(log2_us);
  }
};

struct RecvSpec {
  std::uint8_t qp = 0;
  std::uint8_t sges = 0;    ///< 0: one. n: n-1, modulo more than the QP takes.
  std::uint8_t region = 0;  ///< From kLocal on.
  std::int16_t offset = 0;
  std::uint16_t length = 0;  ///< Per SGE. 0: 1024 bytes. n: n-1.
  std::uint8_t wrong_key = 0;
  template <class Archive>
  void fields(Archive& a) {
    a(qp), a(sges), a(region), a(offset), a(length), a(wrong_key);
  }
};

struct SendSpec {
  RecvSpec local;
  /// From SEND on, modulo 10; from kAtomicWrite on: ATOMIC WRITE (even) and FLUSH (odd).
  std::uint8_t op = 0;
  static constexpr std::uint8_t kAtomicWrite = 0xF0;
  std::uint8_t flags = 0;  ///< SendFlag bits, but kSignaled turned round.
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  template <class Archive>
  void fields(Archive& a) {
    local.fields(a);
    a(op), a(flags), a(remote_addr), a(rkey);
  }
};

struct ModifySpec {
  std::uint8_t qp = 0;
  enum Action : std::uint8_t { kReconnect, kErr, kSqd, kRts, kReset, kInit, kRtr, kReplace, kActions };
  std::uint8_t action = 0;
  std::uint8_t attribute = 0;  ///< SQD: whether to notify. SQD, RTS: a new rd_atomic and timeout.
  template <class Archive>
  void fields(Archive& a) {
    a(qp), a(action), a(attribute);
  }
};

struct RegisterSpec {
  std::uint8_t region = 0;
  enum Action : std::uint8_t { kRemove, kAdd, kNewKey, kActions };
  std::uint8_t action = 0;
  template <class Archive>
  void fields(Archive& a) {
    a(region), a(action);
  }
};

}  // namespace uroce::fuzz
