// SPDX-License-Identifier: Apache-2.0
// A connection manager among strangers who send whatever they like, with a program that makes any calls. Whatever
// happens: what it sends is right, it tells its program nothing without a cause, a connection whose IDs the strangers
// do not know lives on, and nothing is left at the end.
#include <map>
#include <vector>

#include "proto/cm/message.h"
#include "proto/icrc.h"
#include "tests/judged/fuzz/cm_commands.h"
#include "verbs/cm/cm.h"

namespace uroce::fuzz {
namespace {

using namespace std::chrono_literals;
using namespace cm;
using namespace proto::cm;

const Gid kOwn = Gid::from_v4(10, 0, 0, 1), kFriend = Gid::from_v4(10, 0, 0, 2);
constexpr std::uint64_t kGuid = 0x1234;
constexpr int kMaxSteps = 300;
constexpr std::uint64_t kServices[]{0x0106'0001, 0x013F'0001, 0x0111'0001};

Gid stranger(std::uint8_t which) { return Gid::from_v4(10, 0, 1, which % 4); }
std::uint64_t guid_of(const Gid& gid) { return gid.raw[15]; }

class Script {
 public:
  Script() : cm_(config()) {
    const Transport transports[]{Transport::kRc, Transport::kUc, Transport::kUd};
    for (int i = 0; i < 3; ++i) {
      listeners_.push_back(*cm_.listen({.service_id = kServices[i], .transport = transports[i], .backlog = 4}));
    }
    befriend();
  }

  void run(Reader in) {
    for (int i = 0; i < kMaxSteps; ++i) {
      const auto record = next_record(in);
      if (!record) break;
      step(record->kind % kCmCommands, Reader(record->body));
      drain(2);
      UROCE_ASSERT(cm_.query(friend_)->state == State::kEstablished);
      UROCE_ASSERT(cm_.size() < 1000);
    }
    finish();
  }

 private:
  static CmConfig config() {
    CmConfig config;
    config.gids = {kOwn};
    config.guid = kGuid;
    return config;
  }

  /// The connection that nobody here knows the IDs of.
  void befriend() {
    CmMessageSpec req;
    deliver(make(req, kFriend), kFriend);
    const auto event = cm_.poll_event();
    UROCE_ASSERT(event && event->kind == Event::Kind::kRequest);
    friend_ = event->id;
    cm_.fetched(friend_);
    UROCE_ASSERT(cm_.accept(friend_, {.qpn = 0x77}, {}, now_) == 0);
    UROCE_ASSERT(cm_.notify_established(friend_, now_) == 0);
    while (cm_.poll_event()) {
    }
    drain(1);
  }

  void step(std::uint8_t command, Reader in) {
    switch (command) {
      case kCmMessage: {
        const auto spec = in.spec<CmMessageSpec>();
        const Gid source = stranger(spec.source);
        std::vector<std::uint8_t> mad = make(spec, source);
        while (!in.empty()) {
          const auto offset = in.get<std::uint8_t>();
          const auto value = in.get<std::uint8_t>();
          mad[Mad::kSize + offset % (kMadSize - Mad::kSize)] = value;
        }
        return deliver(mad, source);
      }
      case kCmRaw: {
        const Bytes bytes = in.rest();
        return cm_.on_datagram({path_from(stranger(0)), bytes}, now_);
      }
      case kCmCall:
        return call(in.spec<CmCallSpec>());
      default: {
        const auto spec = in.spec<CmTimeSpec>();
        const auto deadline = cm_.next_deadline();
        if (spec.log2_ms == 255 && deadline) now_ = std::max(now_, *deadline);
        if (spec.log2_ms != 255) now_ += 1ms * (1 << spec.log2_ms % 18);
        cm_.on_timeout(now_);
        const auto next = cm_.next_deadline();
        UROCE_ASSERT(!next || *next > now_);
        return drain(2000);
      }
    }
  }

  Id id(std::uint8_t nth) const { return nth < ids_.size() ? ids_[ids_.size() - 1 - nth] : 0; }

  std::vector<std::uint8_t> make(const CmMessageSpec& spec, const Gid& source) const {
    const auto attribute = static_cast<Attribute>(static_cast<int>(Attribute::kReq) + spec.attribute % 11);
    std::vector<std::uint8_t> mad(kMadSize);
    MessageBuilder builder(mad, attribute, spec.sender_id);
    const std::uint64_t service = spec.service < 3 ? kServices[spec.service] : spec.service;
    store_be<4>(mad.data() + Mad::kSize, 0x1000u + spec.sender_id);
    if (attribute == Attribute::kReq) {
      const auto req = builder.as<Req>();
      req.set<Req::ServiceId>(service).set<Req::CaGuid>(guid_of(source)).set<Req::Qpn>(0x11u + spec.qpn);
      req.set<Req::TransportType>(spec.service == 1 ? 1 : 0).set<Req::PKey>(0xFFFF).set<Req::PathMtu>(3);
      req.set<Req::LocalTimeout>(20).set<Req::MaxRetries>(15).set<Req::AckTimeout>(17);
      set_gid<Req::LocalGidHigh, Req::LocalGidLow>(req, source);
      set_gid<Req::RemoteGidHigh, Req::RemoteGidLow>(req, kOwn);
      build_addresses({source, kOwn, 7}, builder.private_data());
      return mad;
    }
    if (attribute == Attribute::kSidrReq) {
      builder.as<SidrReq>().set<SidrReq::ServiceId>(service);
      build_addresses({source, kOwn, 7}, builder.private_data());
      return mad;
    }
    const Id ours = id(spec.ours);
    if (attribute == Attribute::kSidrRep) {
      store_be<4>(mad.data() + Mad::kSize, ours);
      return mad;
    }
    store_be<4>(mad.data() + Mad::kSize + 4, ours);
    const auto info = cm_.query(ours);
    if (attribute == Attribute::kDreq && info) builder.as<Dreq>().set<Dreq::RemoteQpn>(info->local_qpn);
    if (attribute == Attribute::kRep) builder.as<Rep>().set<Rep::CaGuid>(guid_of(source)).set<Rep::Qpn>(spec.qpn);
    if (attribute == Attribute::kRej) {
      builder.as<Rej>().set<Rej::Reason>(ours == 0 ? 4 : 28);
      store_be<8>(builder.additional_info().data(), guid_of(source));
    }
    return mad;
  }

  static proto::Path path_from(const Gid& source) {
    proto::Path path;
    path.source = source;
    path.destination = kOwn;
    return path;
  }
  void deliver(Bytes mad, const Gid& source) {
    std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
    frame.resize(build_packet(mad, proto::Psn{0}, path_from(source), frame));
    cm_.on_datagram({path_from(source), frame}, now_);
  }

  void call(const CmCallSpec& spec) {
    const Id target = id(spec.ours);
    PrivateData data;
    data.size = spec.value;
    const Endpoint local{kOwn, 9}, remote{stranger(spec.value), 9};
    switch (spec.call % 12) {
      case 0:
        cm_.accept(target, {.qpn = 0x21u + spec.value % 4}, {}, now_);
        return;
      case 1:
        cm_.reject(target, RejectReason::kConsumer, data, now_);
        return;
      case 2:
        cm_.disconnect(target, now_);
        return;
      case 3:
        if (target == friend_) return;
        cm_.destroy(target, now_);
        UROCE_ASSERT(!cm_.query(target));
        return;
      case 4:
        cm_.establish(target, now_);
        return;
      case 5:
        if (const auto made = cm_.connect(
                {.service_id = 1, .local = local, .remote = remote, .params = {.qpn = 0x31u + spec.ours % 4}}, now_)) {
          ids_.push_back(*made);
        }
        return;
      case 6:
        if (const auto made = cm_.sidr_request({.service_id = 1, .local = local, .remote = remote}, now_)) {
          ids_.push_back(*made);
        }
        return;
      case 7:
        cm_.sidr_reply(target, {.status = static_cast<SidrStatus>(spec.value % 4), .qpn = 5}, now_);
        return;
      case 8:
        cm_.notify_established(target, now_);
        return;
      case 9:
        cm_.fetched(target);
        return;
      case 10: {
        ListenerId& listener = listeners_[spec.value % listeners_.size()];
        const std::uint64_t service = kServices[spec.value % listeners_.size()];
        const bool datagrams = spec.value % 3 == 2, unreliable = spec.value % 3 == 1;
        cm_.unlisten(listener, now_);
        listener = *cm_.listen({.service_id = service,
                                .transport = datagrams    ? Transport::kUd
                                             : unreliable ? Transport::kUc
                                                          : Transport::kRc,
                                .backlog = 4});
        return;
      }
      default:
        if (const auto info = cm_.query(target)) {
          cm_.on_data(info->local_qpn, info->remote.address, info->local_psn + spec.value % 2, now_);
        }
    }
  }

  /// `most`: packets that what has just happened may cause.
  void drain(std::size_t most) {
    std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
    // unlisten() refuses what waits.
    for (std::size_t sent = 0; const auto out = cm_.poll_transmit(now_, frame); ++sent) {
      UROCE_ASSERT(sent < most + 8);
      const auto packet = proto::parse_packet(Bytes(frame).first(out->size));
      UROCE_ASSERT(packet && proto::check_icrc(out->path, packet->bytes()).ok && parse_message(*packet));
      UROCE_ASSERT(out->path.source == kOwn && out->path.destination != kOwn);
    }
    while (const auto event = cm_.poll_event()) judge(*event);
  }

  /// Each event once, and in an order that makes sense.
  void judge(const Event& event) {
    using Kind = Event::Kind;
    UROCE_ASSERT(event.id != friend_ && cm_.query(event.id));
    if (event.kind == Kind::kRequest) {
      UROCE_ASSERT(!told_.contains(event.id));
      ids_.push_back(event.id);
    }
    std::vector<Kind>& told = told_[event.id];
    const auto was = [&told](Kind kind) { return std::find(told.begin(), told.end(), kind) != told.end(); };
    UROCE_ASSERT(!was(event.kind) && !was(Kind::kUnreachable) && !was(Kind::kRejected) && !was(Kind::kTimewaitExit));
    UROCE_ASSERT(!was(Kind::kDisconnected) || event.kind == Kind::kTimewaitExit);
    UROCE_ASSERT(event.kind != Kind::kTimewaitExit || was(Kind::kDisconnected));
    told.push_back(event.kind);
  }

  void finish() {
    for (const ListenerId listener : listeners_) cm_.unlisten(listener, now_);
    for (const Id made : ids_) cm_.destroy(made, now_);
    cm_.destroy(friend_, now_);
    drain(10'000);
    // Nobody answers any more.
    for (int i = 0; cm_.next_deadline(); ++i) {
      UROCE_ASSERT(i < 100'000);
      now_ = std::max(now_, *cm_.next_deadline());
      cm_.on_timeout(now_);
      drain(10'000);
    }
    UROCE_ASSERT(cm_.size() == 0);
  }

  Cm cm_;
  Instant now_{1000s};
  Id friend_ = 0;
  std::vector<ListenerId> listeners_;
  std::vector<Id> ids_;
  std::map<Id, std::vector<Event::Kind>> told_;
};

}  // namespace
}  // namespace uroce::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  uroce::fuzz::Script().run(uroce::fuzz::Reader(uroce::Bytes(data, size)));
  return 0;
}
