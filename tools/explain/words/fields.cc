// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/fields.h"

#include <array>

namespace uroce::explain {
namespace {

using proto::HeaderId;

struct Row {
  HeaderId header;
  std::string_view field;
  std::string_view meaning;
};

constexpr std::array kRows{
    Row{HeaderId::kBth, "opcode", "service (upper 3 bits), operation and place in its message"},
    Row{HeaderId::kBth, "se", "solicited event: wake the receiver's completion channel"},
    Row{HeaderId::kBth, "m", "migration state; 1 in every packet of much hardware"},
    Row{HeaderId::kBth, "pad", "bytes behind the payload that fill it up to a multiple of four"},
    Row{HeaderId::kBth, "tver", "transport version: 0"},
    Row{HeaderId::kBth, "pkey", "partition key; 0xffff is the default partition"},
    Row{HeaderId::kBth, "fecn", "forward congestion notification (not used by RoCEv2: see ECN)"},
    Row{HeaderId::kBth, "becn", "backward congestion notification"},
    Row{HeaderId::kBth, "resv6", "reserved: 0"},
    Row{HeaderId::kBth, "dqpn", "number of the QP that the packet goes to"},
    Row{HeaderId::kBth, "a", "the requester asks for an ACK"},
    Row{HeaderId::kBth, "resv7", "reserved: 0"},
    Row{HeaderId::kBth, "psn", "packet sequence number; an answer has that of its request"},
    Row{HeaderId::kDeth, "qkey", "must be that of the receiving UD QP"},
    Row{HeaderId::kDeth, "resv8", "reserved: 0"},
    Row{HeaderId::kDeth, "sqpn", "number of the sending QP"},
    Row{HeaderId::kReth, "va", "virtual address at the responder"},
    Row{HeaderId::kReth, "rkey", "the key of the responder's memory"},
    Row{HeaderId::kReth, "len", "bytes of the whole message"},
    Row{HeaderId::kAtomicEth, "va", "virtual address at the responder, a multiple of eight"},
    Row{HeaderId::kAtomicEth, "rkey", "the key of the responder's memory"},
    Row{HeaderId::kAtomicEth, "swap_add", "what to store (compare and swap), or to add (fetch and add)"},
    Row{HeaderId::kAtomicEth, "compare", "store only if memory has this value"},
    Row{HeaderId::kAeth, "syndrome",
        "bits 6..5: 0 ACK (credits), 1 RNR NAK (timer), 3 NAK (code: 0 PSN sequence error, 1 invalid "
        "request, 2 remote access error, 3 remote operational error)"},
    Row{HeaderId::kAeth, "msn", "messages that the responder has completed"},
    Row{HeaderId::kAtomicAckEth, "original", "the value before the atomic"},
    Row{HeaderId::kImmDt, "imm", "immediate data for the receiver's completion"},
    Row{HeaderId::kIeth, "rkey", "the key that the receiver is to invalidate"},
    Row{HeaderId::kCnpPad, "resv_hi", "reserved: 0"},
    Row{HeaderId::kCnpPad, "resv_lo", "reserved: 0"},
};

}  // namespace

std::string_view meaning(HeaderId header, std::string_view field) {
  for (const Row& row : kRows) {
    if (row.header == header && row.field == field) return row.meaning;
  }
  return {};
}

}  // namespace uroce::explain
