// SPDX-License-Identifier: Apache-2.0
#include "tools/session/connect_by_cm.h"

#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <string>

#include "tools/rdma/trace.h"

namespace uroce::tools {
namespace {

PrivateData private_data(const PeerMetadata& local, std::size_t index, std::uint32_t session, const Workload& w) {
  QpOffer offer;
  offer.session = session;
  offer.index = static_cast<std::uint32_t>(index);
  offer.qps = w.qps;
  offer.size = w.size;
  offer.rkey = local.qps[index].rkey;
  offer.address = local.qps[index].address;
  return encode(offer);
}

/// What does not fit, or "".
std::string mismatch(const std::optional<QpOffer>& offer, std::uint32_t session, const Workload& w) {
  if (!offer) return "its private data are not ours (another program, or another build)";
  if (offer->session != session) return "it belongs to another client";
  if (offer->qps != w.qps || offer->size != w.size) {
    return fmt::format("it names {} QPs and {} bytes, agreed were {} and {}", offer->qps, offer->size, w.qps, w.size);
  }
  if (offer->index >= w.qps) return fmt::format("there is no QP {}", offer->index);
  return "";
}

void take(PeerMetadata& peer, const QpOffer& offer) {
  peer.qps[offer.index].rkey = offer.rkey;
  peer.qps[offer.index].address = offer.address;
}

}  // namespace

PeerMetadata accept_by_cm(Control& control, RdmaResources& r, const PeerMetadata& local, const Workload& w,
                          const CmAttributes& attributes) {
  const auto wait = [&control](int fd) { control.await_readable(fd); };
  Listening listening;
  listening.address = listen_for_qps(r);
  listening.session = std::random_device()();
  control.send(MessageType::kListening, encode(listening));
  PeerMetadata peer;
  peer.qps.resize(w.qps);
  std::vector<bool> connected(w.qps);
  for (std::uint32_t count = 0; count < w.qps;) {
    const CmRequest request = await_request(r, wait);
    const auto offer = decode_qp_offer(request.private_data);
    std::string wrong = mismatch(offer, listening.session, w);
    if (wrong.empty() && connected[offer->index]) wrong = fmt::format("QP {} is connected already", offer->index);
    if (!wrong.empty()) {
      trace("rdma_reject: {}", wrong);
      refuse_qp(request, wrong);
      continue;
    }
    accept_qp(r, offer->index, request, attributes, private_data(local, offer->index, listening.session, w));
    take(peer, *offer);
    connected[offer->index] = true;
    ++count;
  }
  await_established(r, wait);
  return peer;
}

PeerMetadata connect_by_cm(Control& control, RdmaResources& r, const PeerMetadata& local, const Workload& w,
                           const CmAttributes& attributes) {
  const auto wait = [&control](int fd) { control.await_readable(fd); };
  const auto listening = decode_listening(control.expect(MessageType::kListening));
  if (!listening) throw Failure(kExitUsage, control.peer_role() + " does not say at which port it listens for QPs");
  PeerMetadata peer;
  std::copy_n(listening->address.gid, sizeof peer.gid, peer.gid);
  peer.qps.resize(w.qps);
  for (std::uint32_t i = 0; i < w.qps; ++i) {
    const PrivateData ours = private_data(local, i, listening->session, w);
    const auto offer = decode_qp_offer(connect_qp(r, i, listening->address, attributes, ours, wait));
    if (const std::string wrong = mismatch(offer, listening->session, w); !wrong.empty() || offer->index != i) {
      throw Failure(kExitUsage, fmt::format("{} answers QP {} with private data that don't fit: {}",
                                            control.peer_role(), i, wrong.empty() ? "another QP's" : wrong));
    }
    take(peer, *offer);
  }
  print_qp_state(r);
  return peer;
}

}  // namespace uroce::tools
