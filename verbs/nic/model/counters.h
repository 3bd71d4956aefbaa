// What the NIC counts, under the names that rxe and mlx5 give the same things in hw_counters.
#pragma once

#include <cstdint>

namespace uroce::nic {

struct Counters {
  // Packets and messages.
  std::uint64_t sent_pkts = 0;
  std::uint64_t rcvd_pkts = 0;
  std::uint64_t sent_payload_bytes = 0;
  std::uint64_t rcvd_payload_bytes = 0;
  // Dropped on arrival, before a QP saw them.
  std::uint64_t parse_errors = 0;
  std::uint64_t icrc_errors = 0;
  std::uint64_t unknown_qp = 0;
  std::uint64_t wrong_pkey = 0;
  std::uint64_t wrong_source = 0;
  std::uint64_t wrong_state_or_service = 0;
  std::uint64_t qkey_violations = 0;
  // Accepted under a recovered IPv4 Identification (see proto/icrc.h).
  std::uint64_t icrc_id_recovered = 0;
  std::uint64_t ecn_marked_pkts = 0;
  // Transport.
  std::uint64_t rdma_sends = 0;  ///< SENDs completed with success.
  std::uint64_t rdma_recvs = 0;  ///< Receives completed with success.
  std::uint64_t duplicate_request = 0;
  std::uint64_t out_of_seq_request = 0;
  std::uint64_t rcvd_rnr_err = 0;
  std::uint64_t send_rnr_err = 0;
  std::uint64_t rcvd_seq_err = 0;  ///< NAKs "PSN sequence error" received.
  std::uint64_t implied_nak = 0;
  std::uint64_t local_ack_timeout_err = 0;
  std::uint64_t retry_exceeded_err = 0;
  std::uint64_t retry_rnr_exceeded_err = 0;
  std::uint64_t retransmitted_pkts = 0;
  std::uint64_t ghost_acks = 0;  ///< Responses outside the window, ignored.
};

}  // namespace uroce::nic
