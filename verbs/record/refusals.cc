// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/refusals.h"

#include "proto/packet.h"
#include "verbs/nic/model/checks.h"

namespace uroce::record {
namespace {

using nic::AccessError;
using nic::TraceKind;
using proto::Kind;

template <class Header>
std::optional<proto::ConstView<Header>> header_of(const Recording::Packet& packet, const proto::OpcodeInfo& op,
                                                  proto::HeaderId id) {
  const int at = op.stack.offset_of(id);
  if (at <= 0 || packet.head.size() < static_cast<std::size_t>(at) + Header::kSize) return std::nullopt;
  return proto::ConstView<Header>{packet.head.data() + at};
}

bool is(const Recording::Packet* packet, Kind kind) {
  const auto* const op = op_of(packet);
  return op != nullptr && op->kind == kind;
}

bool invalidates(const Recording::Packet* packet) {
  const auto* const op = op_of(packet);
  return op != nullptr && op->has(proto::HeaderId::kIeth);
}

/// For a packet with payload: "; it has 1024 bytes ...".
std::string payload_text(const Recording::Packet* packet) {
  if (!is(packet, Kind::kSend) && !is(packet, Kind::kWrite)) return "";
  const auto payload = payload_of(*packet, *op_of(packet));
  const std::string bytes = payload ? "; it has " + counted(*payload, "byte") : "";
  return bytes + ", and path_mtu must be the same at both ends (ibv_modify_qp)";
}

constexpr const char* kNoSuchWindow =
    ": only a bound window of type 2 can be invalidated, by the R_Key that it has then, and no region";

}  // namespace

std::string hex(std::uint64_t value) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  do text.insert(text.begin(), kDigits[value % 16]);
  while ((value /= 16) != 0);
  return "0x" + text;
}

std::string counted(std::uint64_t count, const std::string& what) {
  return std::to_string(count) + ' ' + what + (count == 1 ? "" : "s");
}

std::string request_text(const Recording::Packet* packet) {
  const auto* const op = op_of(packet);
  if (op == nullptr) return "";
  std::string text = " (" + std::string(op->name);
  if (const auto reth = header_of<proto::Reth>(*packet, *op, proto::HeaderId::kReth)) {
    text += " of " + counted(reth->get<proto::Reth::DmaLength>(), "byte") + " at " + hex(reth->get<proto::Reth::Va>()) +
            " with R_Key " + hex(reth->get<proto::Reth::RKey>());
  } else if (const auto atomic = header_of<proto::AtomicEth>(*packet, *op, proto::HeaderId::kAtomicEth)) {
    text +=
        " at " + hex(atomic->get<proto::AtomicEth::Va>()) + " with R_Key " + hex(atomic->get<proto::AtomicEth::RKey>());
  } else if (const auto ieth = header_of<proto::Ieth>(*packet, *op, proto::HeaderId::kIeth)) {
    text += " of R_Key " + hex(ieth->get<proto::Ieth::RKey>());
  }
  return text + ')';
}

bool is_read(const Recording::Packet* packet) { return is(packet, Kind::kReadRequest); }

bool is_answered_with_data(const Recording::Packet* packet) {
  return is(packet, Kind::kReadRequest) || is(packet, Kind::kCompareSwap) || is(packet, Kind::kFetchAdd) ||
         is(packet, Kind::kAtomicWrite);
}

std::string invalid_there(const Recording::Packet* request) {
  if (is_answered_with_data(request)) {
    return ": that QP does not allow it (qp_access_flags), or takes fewer READs and atomics at once than this one "
           "sends "
           "(max_dest_rd_atomic there must be at least max_rd_atomic here)";
  }
  if (is(request, Kind::kWrite)) {
    return ": that QP does not allow it (qp_access_flags), or its path_mtu is another one than here";
  }
  return ": it is longer than the receive there, or the path_mtu of that QP is another one than here";
}

std::string no_access_there(const Recording::Packet* request) {
  if (invalidates(request)) return kNoSuchWindow;
  return ": no region or bound window there has this R_Key, in the protection domain of that QP, with this range and "
         "right; the peer's NIC knows which of these it is (uroce record there)";
}

std::string not_done_there(const Recording::Packet* request) {
  const bool takes_receive = request == nullptr || is(request, Kind::kSend);
  return std::string(": it could not execute it: ") +
         (takes_receive
              ? "the L_Key, range or access flags (IBV_ACCESS_LOCAL_WRITE) of the receive there are wrong, or "
              : "") +
         "memory there is gone";
}

std::string invalid_here(const Evidence& evidence, const Recording::Packet* request) {
  if (const auto check = evidence.refusing_check()) {
    switch (*check) {
      case nic::RcCheck::kSequence:
        return ": it does not continue the message before it, or begins inside one";
      case nic::RcCheck::kOpcode:
        return ": this QP does not allow it (qp_access_flags)";
      case nic::RcCheck::kResources:
        return ": more READs and atomics at once than this QP takes (max_dest_rd_atomic)";
      case nic::RcCheck::kLength:
        return ": its length is wrong" + payload_text(request);
      default:
        return "";
    }
  }
  return is(request, Kind::kSend) ? ": it is longer than the receive" : "";
}

std::string no_access_here(const Evidence& evidence) {
  const auto refused = evidence.refused_key(TraceKind::kRkeyRefused);
  if (!refused) {
    return invalidates(evidence.last_received()) ? kNoSuchWindow : ": no region here has this R_Key, range and right";
  }
  const std::string key = "R_Key " + hex(refused->key);
  switch (refused->why) {
    case AccessError::kBadKey:
      return ": no region or bound window here has the " + key + ": it was never exchanged, or has been taken back";
    case AccessError::kWrongPd:
      return ": the " + key + " is of another protection domain than this QP, or a window of another QP";
    case AccessError::kOutOfBounds:
      return ": it goes beyond the region or window of the " + key;
    case AccessError::kNoRight:
      return ": the region or window of the " + key + " does not allow it (access flags of ibv_reg_mr)";
  }
  return "";
}

std::string bad_memory(const Evidence& evidence, bool writes) {
  const auto refused = evidence.refused_key(TraceKind::kLkeyRefused);
  if (!refused) return "memory is gone (unmapped), or may not be " + std::string(writes ? "written" : "read");
  const std::string key = "L_Key " + hex(refused->key);
  switch (refused->why) {
    case AccessError::kBadKey:
      return "no region has the " + key;
    case AccessError::kWrongPd:
      return "the " + key + " is of another protection domain than the QP";
    case AccessError::kOutOfBounds:
      return "the region of the " + key + " does not reach so far";
    case AccessError::kNoRight:
      return "the region of the " + key + " has no IBV_ACCESS_LOCAL_WRITE";
  }
  return "";
}

}  // namespace uroce::record
