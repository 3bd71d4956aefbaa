// SPDX-License-Identifier: Apache-2.0
// The messages that we send, from what a connection knows.
#pragma once

#include "verbs/cm/connection.h"

namespace uroce::cm {

/// Which message a REJ or MRA is about.
enum class About : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

/// What a REJ says besides the two IDs.
struct Refusal {
  RejectReason reason{};
  About about = About::kReq;
  Bytes info{};
  Bytes private_data{};
};

Mad make_req(const Connection& c, const CmConfig& config, const ConnectRequest& request);
Mad make_rep(const Connection& c, const CmConfig& config, const ConnectionParams& params, Bytes private_data);
Mad make_rtu(const Connection& c);
Mad make_dreq(const Connection& c);
/// In answer to any DREQ, known or not.
Mad make_drep(Id local_id, std::uint32_t remote_id, std::uint64_t tid);
Mad make_mra(const Connection& c, About about);
Mad make_rej(Id local_id, std::uint32_t remote_id, std::uint64_t tid, const Refusal& refusal);
Mad make_sidr_req(const Connection& c, Bytes private_data);
Mad make_sidr_rep(std::uint32_t request_id, std::uint64_t tid, std::uint64_t service_id, const SidrReply& reply);

/// Transaction ID of a message that begins something.
constexpr std::uint64_t own_tid(Id id) { return std::uint64_t{2} << 32 | id; }
/// The same of a REQ. Its sender may take it back by a REJ that bears no ID of the receiver's: where processes share an
/// address, this tells for which of them that is (engine/broker/cm_steering.h).
constexpr std::uint64_t request_tid(Id id, std::uint64_t service_id) { return service_id << 32 | id; }

}  // namespace uroce::cm
