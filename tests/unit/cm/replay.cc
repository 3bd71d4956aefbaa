// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cm/replay.h"

#include <algorithm>
#include <deque>
#include <map>

#include "verbs/cm/cm.h"

namespace uroce::cm::test {
namespace {

using namespace std::chrono_literals;
using namespace proto::cm;
using proto::ConstView;
using proto::MutView;

/// Linux's timers are late: by their granularity, which grows with the time.
constexpr Duration kLate = 400ms;

template <class M>
MutView<M> fields(std::vector<std::uint8_t>& mad) {
  return MutView<M>{mad.data() + Mad::kSize};
}

bool has_remote_id(Attribute attribute) {
  return attribute != Attribute::kReq && attribute != Attribute::kSidrReq && attribute != Attribute::kSidrRep;
}
/// The first ID of a message; of SIDR the request's.
std::uint32_t first_id(const std::vector<std::uint8_t>& mad) {
  return static_cast<std::uint32_t>(load_be<4>(mad.data() + Mad::kSize));
}
std::uint32_t second_id(const std::vector<std::uint8_t>& mad) {
  return static_cast<std::uint32_t>(load_be<4>(mad.data() + Mad::kSize + 4));
}
void set_first_id(std::vector<std::uint8_t>& mad, std::uint32_t id) { store_be<4>(mad.data() + Mad::kSize, id); }
void set_second_id(std::vector<std::uint8_t>& mad, std::uint32_t id) { store_be<4>(mad.data() + Mad::kSize + 4, id); }

PrivateData without_padding(Bytes field) {
  PrivateData data;
  std::copy(field.begin(), field.end(), data.bytes.begin());
  const auto end = std::find_if(field.rbegin(), field.rend(), [](std::uint8_t byte) { return byte != 0; });
  data.size = static_cast<std::uint8_t>(field.rend() - end);
  return data;
}

const char* name_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::kRequest:
      return "CONNECT_REQUEST";
    case Event::Kind::kResponse:
      return "CONNECT_RESPONSE";
    case Event::Kind::kUnreachable:
      return "UNREACHABLE";
    case Event::Kind::kRejected:
      return "REJECTED";
    case Event::Kind::kEstablished:
      return "ESTABLISHED";
    case Event::Kind::kDisconnected:
      return "DISCONNECTED";
    case Event::Kind::kTimewaitExit:
      return "TIMEWAIT_EXIT";
  }
  return "";
}

CmConfig config_for(const std::vector<Captured>& messages, std::uint64_t guid) {
  CmConfig config;
  config.guid = guid;
  config.as_kernel = true;
  for (const Captured& message : messages) {
    const Gid& gid = message.ours ? message.path.source : message.path.destination;
    if (std::find(config.gids.begin(), config.gids.end(), gid) == config.gids.end()) config.gids.push_back(gid);
  }
  return config;
}

class Replay {
 public:
  Replay(std::vector<Captured> messages, std::uint64_t guid, std::uint32_t backlog);
  ReplayResult run();

 private:
  struct Ours {
    proto::Path path;
    std::vector<std::uint8_t> mad;
  };
  void listen_to_all();
  void feed(const Captured& message);
  void expect(const Captured& message);
  void act(const Captured& message);
  void begin(const Captured& message);
  void begin_sidr(const Captured& message);
  void wait_until(Instant time);
  void run_timer(const Captured& message);
  void collect();
  bool take_match(const Captured& message);
  void compare(const Captured& rxe, Ours ours);
  bool is_ended_by_death(const Captured& dreq) const;
  Id our_id(std::uint32_t rxe_id) const;
  void differ(const Captured& message, const std::string& what);

  ReplayResult result_;
  std::vector<Captured> messages_;
  std::size_t at_ = 0;  ///< The message that is being looked at.
  CmConfig config_;
  Cm cm_;
  Instant now_;
  std::uint32_t backlog_;
  std::deque<Ours> sent_;
  std::map<std::uint32_t, Id> ours_;      ///< By rxe's ID.
  std::map<Id, std::uint32_t> theirs_;    ///< The other way round.
  std::map<std::uint32_t, Id> requests_;  ///< Passive: by the peer's ID.
  std::uint32_t last_peer_id_ = 0;
};

Replay::Replay(std::vector<Captured> messages, std::uint64_t guid, std::uint32_t backlog)
    : messages_(std::move(messages)), config_(config_for(messages_, guid)), cm_(config_), backlog_(backlog) {
  if (!messages_.empty()) now_ = messages_.front().time;
}

ReplayResult Replay::run() {
  listen_to_all();
  for (at_ = 0; at_ < messages_.size(); ++at_) {
    const Captured& message = messages_[at_];
    wait_until(message.time);
    if (message.ours) {
      expect(message);
    } else {
      feed(message);
    }
  }
  wait_until(now_ + 1s);
  for (const Ours& ours : sent_) {
    result_.differences.push_back("we sent besides " + std::string(parse_message(ours.mad)->info().name));
  }
  // What is given up is told some time after the last packet; what is sent then, nobody has captured.
  wait_until(now_ + 5s);
  return std::move(result_);
}

/// Whatever is asked for and not refused because nobody listens.
void Replay::listen_to_all() {
  std::map<std::uint64_t, bool> services;  // Whether for datagrams.
  for (const Captured& message : messages_) {
    if (message.ours) continue;
    const auto view = message.view();
    if (view.attribute() == Attribute::kReq) services[view.as<Req>().get<Req::ServiceId>()] = false;
    if (view.attribute() == Attribute::kSidrReq) services[view.as<SidrReq>().get<SidrReq::ServiceId>()] = true;
  }
  for (const Captured& message : messages_) {
    if (!message.ours) continue;
    const auto view = message.view();
    if (view.attribute() == Attribute::kRej && view.as<Rej>().get<Rej::Reason>() == 8) services.clear();
    if (view.attribute() == Attribute::kSidrRep && view.as<SidrRep>().get<SidrRep::Status>() == 1) services.clear();
  }
  for (const auto& [service_id, datagrams] : services) {
    static_cast<void>(cm_.listen(
        {.service_id = service_id, .transport = datagrams ? Transport::kUd : Transport::kRc, .backlog = backlog_}));
  }
}

void Replay::wait_until(Instant time) {
  for (auto deadline = cm_.next_deadline(); deadline && *deadline + kLate < time; deadline = cm_.next_deadline()) {
    now_ = *deadline;
    cm_.on_timeout(now_);
    collect();
  }
  now_ = time;
}

void Replay::collect() {
  std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
  while (const auto out = cm_.poll_transmit(now_, frame)) {
    const auto packet = proto::parse_packet(Bytes(frame).first(out->size));
    sent_.push_back({out->path, {packet->payload().begin(), packet->payload().end()}});
  }
  while (const auto event = cm_.poll_event()) {
    if (event->kind == Event::Kind::kRequest) requests_[last_peer_id_] = event->id;
    result_.events.push_back(std::string(name_of(event->kind)) + ' ' + std::to_string(event->status));
  }
}

Id Replay::our_id(std::uint32_t rxe_id) const {
  const auto it = ours_.find(rxe_id);
  return it == ours_.end() ? rxe_id : it->second;
}

void Replay::feed(const Captured& message) {
  std::vector<std::uint8_t> mad = message.mad;
  const Attribute attribute = message.view().attribute();
  last_peer_id_ = first_id(mad);
  if (has_remote_id(attribute)) set_second_id(mad, our_id(second_id(mad)));
  if (attribute == Attribute::kSidrRep) set_first_id(mad, our_id(first_id(mad)));
  std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
  frame.resize(build_packet(mad, proto::Psn{0}, message.path, frame));
  cm_.on_datagram({message.path, frame}, now_);
  ++result_.fed;
  collect();
}

void Replay::expect(const Captured& message) {
  collect();
  if (take_match(message)) return;
  act(message);
  collect();
  if (!take_match(message)) differ(message, "we do not send it");
}

bool Replay::take_match(const Captured& message) {
  const Attribute attribute = message.view().attribute();
  for (auto it = sent_.begin(); it != sent_.end(); ++it) {
    if (parse_message(it->mad)->attribute() != attribute) continue;
    // When there are several connections, the same one.
    const auto known = theirs_.find(first_id(it->mad));
    if (known != theirs_.end() && known->second != first_id(message.mad)) continue;
    const Ours ours = *it;
    sent_.erase(it);
    compare(message, ours);
    return true;
  }
  return false;
}

/// A DREQ that is neither answered nor repeated comes from a process that ends.
bool Replay::is_ended_by_death(const Captured& dreq) const {
  for (std::size_t i = at_ + 1; i < messages_.size(); ++i) {
    const Captured& later = messages_[i];
    const Attribute attribute = later.view().attribute();
    if (later.ours && attribute == Attribute::kDreq && later.mad == dreq.mad) return false;
    if (!later.ours && attribute == Attribute::kDrep && second_id(later.mad) == first_id(dreq.mad)) return false;
    if (!later.ours && attribute == Attribute::kDreq && second_id(later.mad) == first_id(dreq.mad)) return false;
  }
  return true;
}

void Replay::run_timer(const Captured& message) {
  const auto deadline = cm_.next_deadline();
  if (!deadline || *deadline > now_ + 30ms) return differ(message, "we would not send it yet");
  cm_.on_timeout(std::max(now_, *deadline));
}

/// Has our program do what theirs did.
void Replay::act(const Captured& message) {
  const auto view = message.view();
  const auto known = ours_.find(first_id(message.mad));
  const auto request = requests_.find(has_remote_id(view.attribute()) ? second_id(message.mad) : first_id(message.mad));
  Id id = known != ours_.end() ? known->second : request != requests_.end() ? request->second : 0;
  const auto info = cm_.query(id);
  const State state = info ? info->state : State::kIdle;
  switch (view.attribute()) {
    case Attribute::kReq:
      return known != ours_.end() ? run_timer(message) : begin(message);
    case Attribute::kSidrReq:
      return known != ours_.end() ? run_timer(message) : begin_sidr(message);
    case Attribute::kRep: {
      if (state != State::kReqReceived) return run_timer(message);
      const auto rep = view.as<Rep>();
      ConnectionParams params;
      params.qpn = rep.get<Rep::Qpn>();
      params.responder_resources = rep.get<Rep::ResponderResources>();
      params.initiator_depth = rep.get<Rep::InitiatorDepth>();
      params.flow_control = rep.get<Rep::FlowControl>();
      params.rnr_retry_count = rep.get<Rep::RnrRetryCount>();
      params.srq = rep.get<Rep::Srq>();
      cm_.fetched(id);
      cm_.accept(id, params, without_padding(view.private_data()), now_);
      return;
    }
    case Attribute::kRtu:
      cm_.establish(id, now_);
      return;
    case Attribute::kDreq:
      if (state != State::kEstablished) return run_timer(message);
      if (is_ended_by_death(message)) return cm_.destroy(id, now_);
      cm_.disconnect(id, now_);
      return;
    case Attribute::kDrep:
      cm_.disconnect(id, now_);
      return;
    case Attribute::kRej: {
      const auto reason = static_cast<RejectReason>(view.as<Rej>().get<Rej::Reason>());
      if (reason == RejectReason::kTimeout) return cm_.destroy(id, now_);
      cm_.fetched(id);
      cm_.reject(id, reason, without_padding(view.private_data()), now_);
      return;
    }
    case Attribute::kSidrRep: {
      const auto rep = view.as<SidrRep>();
      SidrReply reply;
      reply.status = static_cast<SidrStatus>(rep.get<SidrRep::Status>());
      reply.qpn = rep.get<SidrRep::Qpn>();
      reply.qkey = rep.get<SidrRep::QKey>();
      reply.private_data = without_padding(view.private_data());
      cm_.fetched(id);
      cm_.sidr_reply(id, reply, now_);
      return;
    }
    default:
      return;
  }
}

void Replay::begin(const Captured& message) {
  const auto view = message.view();
  const auto req = view.as<Req>();
  const auto addresses = parse_addresses(view.private_data());
  ConnectRequest request;
  request.transport = req.get<Req::TransportType>() == 0 ? Transport::kRc : Transport::kUc;
  request.service_id = req.get<Req::ServiceId>();
  request.local = {addresses->source, addresses->source_port};
  request.remote = {addresses->destination, static_cast<std::uint16_t>(request.service_id)};
  request.path.tclass = req.get<Req::TClass>();
  request.path.mtu = req.get<Req::PathMtu>();
  // The options of the scenario `opts`; all others leave the life time alone.
  if (req.get<Req::AckTimeout>() == 16) request.path.life_time = 13;
  request.params.qpn = req.get<Req::Qpn>();
  request.params.responder_resources = req.get<Req::ResponderResources>();
  request.params.initiator_depth = req.get<Req::InitiatorDepth>();
  request.params.flow_control = req.get<Req::FlowControl>();
  request.params.retry_count = req.get<Req::RetryCount>();
  request.params.rnr_retry_count = req.get<Req::RnrRetryCount>();
  request.params.srq = req.get<Req::Srq>();
  request.private_data = without_padding(view.private_data().subspan(CmaHeader::kSize));
  const auto id = cm_.connect(request, now_);
  if (!id) return differ(message, "connect() refuses");
}

void Replay::begin_sidr(const Captured& message) {
  const auto view = message.view();
  const auto addresses = parse_addresses(view.private_data());
  SidrRequest request;
  request.service_id = view.as<SidrReq>().get<SidrReq::ServiceId>();
  request.local = {addresses->source, addresses->source_port};
  request.remote = {addresses->destination, static_cast<std::uint16_t>(request.service_id)};
  request.private_data = without_padding(view.private_data().subspan(CmaHeader::kSize));
  const auto id = cm_.sidr_request(request, now_);
  if (!id) return differ(message, "sidr_request() refuses");
}

void Replay::differ(const Captured& message, const std::string& what) {
  result_.differences.push_back("#" + std::to_string(at_ + 1) + ' ' + std::string(message.view().info().name) + ": " +
                                what);
}

void Replay::compare(const Captured& rxe, Ours ours) {
  ++result_.compared;
  const auto view = rxe.view();
  const bool is_answer = view.attribute() == Attribute::kSidrRep;  // Its ID is the peer's.
  const Id id = first_id(ours.mad);
  const std::uint32_t rxe_id = first_id(rxe.mad);
  if (!is_answer && id != 0 && cm_.query(id) && !theirs_.contains(id) && !ours_.contains(rxe_id)) {
    theirs_[id] = rxe_id;
    ours_[rxe_id] = id;
  }
  // Numbers that everybody draws for himself.
  const MutView<Mad> header{ours.mad.data()};
  const std::uint64_t rxe_tid = view.mad().get<Mad::TransactionId>();
  const std::uint64_t ours_tid = ConstView<Mad>{ours.mad.data()}.get<Mad::TransactionId>();
  for (const auto& [ours_id, theirs] : theirs_) {  // In the upper halves are numbers of ours, and of rxe's agent.
    const bool both_own = static_cast<std::uint32_t>(ours_tid) == ours_id &&
                          static_cast<std::uint32_t>(rxe_tid) == __builtin_bswap32(theirs);
    if (both_own) header.set<Mad::TransactionId>(rxe_tid);
  }
  if (!is_answer && theirs_.contains(id)) set_first_id(ours.mad, theirs_.at(id));
  if (view.attribute() == Attribute::kReq) {
    fields<Req>(ours.mad).set<Req::StartingPsn>(view.as<Req>().get<Req::StartingPsn>());
  }
  if (view.attribute() == Attribute::kRep) {
    fields<Rep>(ours.mad).set<Rep::StartingPsn>(view.as<Rep>().get<Rep::StartingPsn>());
  }

  const auto say = [&](std::string_view field, std::uint64_t a, std::uint64_t b) {
    if (a != b) differ(rxe, std::string(field) + ": rxe " + std::to_string(a) + ", ours " + std::to_string(b));
  };
  for (const auto& field : Mad::All::table) say(field.name, field.load(rxe.mad.data()), field.load(ours.mad.data()));
  for (const auto& field : view.info().fields) {
    say(field.name, field.load(rxe.mad.data() + Mad::kSize), field.load(ours.mad.data() + Mad::kSize));
  }
  const std::size_t rest = Mad::kSize + view.info().size;
  if (!std::equal(rxe.mad.begin() + static_cast<std::ptrdiff_t>(rest), rxe.mad.end(),
                  ours.mad.begin() + static_cast<std::ptrdiff_t>(rest))) {
    differ(rxe, "information or private data");
  }
  if (ours.path.source != rxe.path.source || ours.path.destination != rxe.path.destination) differ(rxe, "addresses");
  say("tclass", rxe.path.tclass, ours.path.tclass);
  say("hop limit", rxe.path.hop_limit, ours.path.hop_limit);
  say("flow label", rxe.path.flow_label, ours.path.flow_label);
}

}  // namespace

ReplayResult replay(std::vector<Captured> messages, std::uint64_t guid, std::uint32_t backlog) {
  return Replay(std::move(messages), guid, backlog).run();
}

}  // namespace uroce::cm::test
