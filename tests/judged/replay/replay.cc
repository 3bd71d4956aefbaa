// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/replay/replay.h"

#include <algorithm>
#include <deque>

#include "proto/address.h"
#include "proto/syndrome.h"
#include "tests/judged/replay/endpoint.h"
#include "tests/unit/proto/golden.h"

namespace uroce::replay {
namespace {

using nlohmann::json;
using proto::PacketView;
using proto::Psn;

/// One packet of a capture.
struct Event {
  std::vector<std::uint8_t> frame;
  Duration gap{};  ///< Since the event before.
  Side from;
  std::string name;

  proto::FrameView view() const { return *proto::parse_frame(frame); }
  PacketView packet() const { return *proto::parse_packet(view().packet); }
};

/// What the endpoint saw: its own tap where the wire between the two lost or changed something.
std::vector<Event> events_at(const json& sidecar, Side side) {
  std::vector<std::string> captures = sidecar.at("capture_points");
  const std::string own = std::string(".at") + letter(side) + ".pcap";
  if (captures.size() > 1) std::erase_if(captures, [&](const std::string& name) { return !name.ends_with(own); });
  std::vector<Event> out;
  std::int64_t before = 0;
  for (proto::test::GoldenFrame& golden : proto::test::frames_of(captures.at(0))) {
    Event event{std::move(golden.bytes), {}, Side::kA, "packet " + std::to_string(golden.number)};
    if (!out.empty()) event.gap = Duration{golden.time_ns - before};
    before = golden.time_ns;
    const std::string source = proto::to_string(event.view().fields.path.source);
    event.from = source == sidecar.at("endpoints").at("A").at("ip").get<std::string>() ? Side::kA : Side::kB;
    out.push_back(std::move(event));
  }
  return out;
}

bool is_rnr_nak(const PacketView& packet) {
  if (packet.op().kind != proto::Kind::kAcknowledge) return false;
  const auto syndrome = proto::decode_syndrome(packet.header<proto::Aeth>().get<proto::Aeth::SyndromeField>());
  return std::holds_alternative<proto::syndrome::Rnr>(syndrome);
}

/// A packet that our NIC sent.
struct Sent {
  Instant at;
  proto::Path path;
  std::vector<std::uint8_t> bytes;
};

/// What makes two packets the same step: opcode, PSN, and ACK or which NAK.
std::tuple<int, std::uint32_t, int> step_of(Bytes bytes) {
  const auto packet = proto::parse_packet(bytes);
  if (!packet) return {-1, 0, 0};
  int syndrome = 0;
  if (packet->op().kind == proto::Kind::kAcknowledge) {
    syndrome = packet->header<proto::Aeth>().get<proto::Aeth::SyndromeField>();
    if (syndrome < 0x20) syndrome = 0;  // An ACK, whatever credits it brings.
  }
  return {static_cast<int>(packet->op().code), packet->psn().value(), syndrome};
}

class Walk {
 public:
  Walk(const json& sidecar, Side side)
      : side_(side), endpoint_(sidecar, side), events_(events_at(sidecar, side)), script_(place(sidecar)) {}

  Replay run() {
    endpoint_.hear_of_no_credits(now_);
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const Instant due = now_ + events_[i].gap;
      execute_before(i, due);
      if (events_[i].from == side_) {
        expect(i, due);
      } else {
        feed(events_[i], due);
      }
    }
    run_until_idle();
    execute_before(events_.size(), now_);
    return std::move(result_);
  }

 private:
  struct Placed {
    Command command;
    std::size_t before;  ///< Index of the event that it precedes.
  };

  /// The log has the order of the verbs, not their times. A post came before its first packet, a receive that was
  /// posted late after the last RNR NAK, and everything else just before what followed it.
  std::deque<Placed> place(const json& sidecar) const {
    std::deque<Placed> out;
    Psn next[2] = {first_psn(sidecar, "A"), first_psn(sidecar, "B")};
    bool in_list = false;
    for (const Command& command : commands(sidecar, "commands_after_setup")) {
      std::size_t before = kUnplaced;
      if (command.verb() == "post") {
        Psn& psn = next[command.at() == Side::kA ? 0 : 1];
        before = in_list ? out.back().before : first_request(command.at(), psn);
        psn = psn + endpoint_.packets_of(command);
        in_list = command.number("defer", 0) != 0;
      } else if (command.verb() == "recv") {
        before = behind_last_rnr_nak();
      }
      out.push_back({command, before});
    }
    std::size_t following = events_.size();
    for (auto placed = out.rbegin(); placed != out.rend(); ++placed) {
      following = placed->before = std::min(placed->before, following);
    }
    return out;
  }
  static Psn first_psn(const json& sidecar, const char* endpoint) {
    return Psn{sidecar.at("endpoints").at(endpoint).at("start_psn").get<std::uint32_t>()};
  }
  std::size_t first_request(Side from, Psn psn) const {
    for (std::size_t i = 0; i < events_.size(); ++i) {
      const PacketView packet = events_[i].packet();
      if (events_[i].from == from && !packet.op().is_response() && packet.psn() - psn >= 0) return i;
    }
    return events_.size();
  }
  std::size_t behind_last_rnr_nak() const {
    for (std::size_t i = events_.size(); i > 0; --i) {
      if (is_rnr_nak(events_[i - 1].packet())) return i;
    }
    throw std::runtime_error("nothing tells when this receive was posted");
  }

  void execute_before(std::size_t event, Instant due) {
    for (; !script_.empty() && script_.front().before <= event; script_.pop_front()) {
      const Command& command = script_.front().command;
      if (command.at() != side_) continue;
      advance_to(due);
      report(endpoint_.execute(command), "");
      if (command.number("defer", 0) == 0) take_packets();  // A list of WRs is posted in one call.
    }
  }

  /// The peer's packet, as long after the event before as in the capture.
  void feed(const Event& event, Instant due) {
    advance_to(due);
    const proto::FrameView frame = event.view();
    std::vector<std::uint8_t> bytes = translate(frame);
    endpoint_.nic().on_datagram({frame.fields.path, bytes}, now_);
    take_packets();
    ++result_.fed;
  }

  /// QPN and keys are those of rxe's objects in the packet, and must be those of ours. The ICRC stays as right or wrong
  /// as it was.
  std::vector<std::uint8_t> translate(const proto::FrameView& frame) const {
    std::vector<std::uint8_t> bytes(frame.packet.begin(), frame.packet.end());
    const auto packet = proto::parse_packet(frame.packet);
    if (!packet) return bytes;
    proto::MutView<proto::Bth>{bytes.data()}.set<proto::Bth::DestQp>(endpoint_.qpn_of(packet->dest_qp()));
    translate_key<proto::Reth>(*packet, bytes);
    translate_key<proto::AtomicEth>(*packet, bytes);
    translate_key<proto::Ieth>(*packet, bytes);
    const auto icrc = [&](Bytes all) {
      return proto::icrc(frame.fields.path, all.first(all.size() - proto::kIcrcSize), frame.fields.ip_id);
    };
    const std::uint32_t error = packet->icrc() ^ icrc(frame.packet);
    proto::store_icrc(MutBytes(bytes).last(proto::kIcrcSize), icrc(bytes) ^ error);
    return bytes;
  }
  template <class H>
  void translate_key(const PacketView& packet, std::vector<std::uint8_t>& bytes) const {
    if (!packet.has<H>()) return;
    const std::uint32_t key = packet.header<H>().template get<typename H::RKey>();
    proto::MutView<H>{bytes.data() + packet.op().stack.offset_of(proto::kHeaderId<H>)}.template set<typename H::RKey>(
        endpoint_.key_of(key));
  }

  /// rxe sent events_[i]: so must we. The order of requests among themselves counts, and that of answers; not the order
  /// between the two, which come from the two halves of a QP.
  void expect(std::size_t i, Instant due) {
    const Event& event = events_[i];
    std::deque<Sent>& ours = sent_[event.packet().op().is_response()];
    run_timers_until(due + kLag, [&] { return !ours.empty(); });
    while (!ours.empty() && is_extra(ours, i)) report_extra(ours, event.name);
    if (ours.empty() || is_missing(ours.front(), i)) {
      report({{"packet", words(event.view().packet), "none", {}}}, event.name);
      advance_to(due);
      return;
    }
    const Sent sent = std::move(ours.front());
    ours.pop_front();
    Differences differences = compare_packets(event.view(), sent.path, sent.bytes);
    std::erase_if(differences, [&](const Difference& d) {
      return d.aspect == "DETH sqpn" && endpoint_.is_own_qpn(std::stoull(d.rxe), std::stoull(d.ours));
    });
    report(std::move(differences), event.name);
    const Duration late = sent.at - due;
    if (late > kLag || late < -kLag) report({{"time", "", late > kLag ? "later" : "earlier", {}}}, event.name);
    ++result_.compared;
  }
  /// Our next packet is not events_[i], but one that follows it is.
  bool is_extra(const std::deque<Sent>& ours, std::size_t i) const {
    const auto wanted = step_of(events_[i].view().packet);
    if (step_of(ours.front().bytes) == wanted) return false;
    return std::any_of(ours.begin(), ours.end(), [&](const Sent& s) { return step_of(s.bytes) == wanted; });
  }
  /// Our next packet is not events_[i], but a later one of rxe's.
  bool is_missing(const Sent& ours, std::size_t i) const {
    const auto step = step_of(ours.bytes);
    if (step_of(events_[i].view().packet) == step) return false;
    return std::any_of(events_.begin() + static_cast<std::ptrdiff_t>(i), events_.end(),
                       [&](const Event& later) { return later.from == side_ && step_of(later.view().packet) == step; });
  }
  void report_extra(std::deque<Sent>& ours, const std::string& where) {
    report({{"packet", "none", words(ours.front().bytes), {}}}, where);
    ours.pop_front();
  }

  void advance_to(Instant due) {
    run_timers_until(due, [] { return false; });
    now_ = std::max(now_, due);
  }
  template <class Done>
  void run_timers_until(Instant end, Done done) {
    while (!done()) {
      const auto deadline = endpoint_.nic().next_deadline();
      if (!deadline || *deadline > end) return;
      now_ = std::max(now_, *deadline);
      endpoint_.nic().on_timeout(now_);
      take_packets();
    }
  }
  /// Behind the last packet of the capture nothing may come, and what ends by a timer ends.
  void run_until_idle() {
    run_timers_until(now_ + std::chrono::seconds{30}, [] { return false; });
    for (std::deque<Sent>& ours : sent_) {
      while (!ours.empty()) report_extra(ours, "after the last packet");
    }
  }
  void take_packets() {
    std::vector<std::uint8_t> buffer(proto::kMaxPacketSize);
    while (const auto out = endpoint_.nic().poll_transmit(now_, buffer)) {
      const Bytes bytes = Bytes(buffer).first(out->size);
      const auto packet = proto::parse_packet(bytes);
      sent_[packet && packet->op().is_response()].push_back({now_, out->path, {bytes.begin(), bytes.end()}});
    }
  }
  void report(Differences differences, const std::string& where) {
    for (Difference& difference : differences) {
      if (difference.where.empty()) difference.where = where;
      result_.differences.push_back(std::move(difference));
    }
  }

  static constexpr std::size_t kUnplaced = static_cast<std::size_t>(-1);
  Side side_;
  Endpoint endpoint_;
  std::vector<Event> events_;
  std::deque<Placed> script_;
  Instant now_{};
  std::deque<Sent> sent_[2];  ///< Requests and answers that have no counterpart yet.
  Replay result_;
};

}  // namespace

Replay replay(const std::string& topic, Side side) { return Walk(proto::test::sidecar(topic), side).run(); }

}  // namespace uroce::replay
