// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/replay/endpoint.h"

#include <array>
#include <cerrno>

#include "proto/address.h"
#include "proto/entropy.h"
#include "proto/syndrome.h"
#include "tests/unit/proto/hex.h"

namespace uroce::replay {
namespace {

using nic::Completion;
using nic::WcOpcode;
using nic::WcStatus;
using nlohmann::json;

// As libibverbs and the lab's shell spell them.
constexpr std::array<std::string_view, 22> kStatuses{
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};
constexpr std::array<std::string_view, 7> kStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array<std::pair<std::string_view, nic::SendOp>, 11> kOps{{{"write", nic::SendOp::kWrite},
                                                                         {"writeimm", nic::SendOp::kWriteImm},
                                                                         {"send", nic::SendOp::kSend},
                                                                         {"sendimm", nic::SendOp::kSendImm},
                                                                         {"read", nic::SendOp::kRead},
                                                                         {"cas", nic::SendOp::kCompareSwap},
                                                                         {"faa", nic::SendOp::kFetchAdd},
                                                                         {"inv", nic::SendOp::kLocalInv},
                                                                         {"bind", nic::SendOp::kBindMw},
                                                                         {"sendinv", nic::SendOp::kSendInv},
                                                                         {"awrite", nic::SendOp::kAtomicWrite}}};

std::string_view name_of(WcOpcode opcode) {
  switch (opcode) {
    case WcOpcode::kSend:
      return "SEND";
    case WcOpcode::kWrite:
      return "RDMA_WRITE";
    case WcOpcode::kRead:
      return "RDMA_READ";
    case WcOpcode::kCompareSwap:
      return "COMP_SWAP";
    case WcOpcode::kFetchAdd:
      return "FETCH_ADD";
    case WcOpcode::kBindMw:
      return "BIND_MW";
    case WcOpcode::kLocalInv:
      return "LOCAL_INV";
    case WcOpcode::kFlush:
      return "FLUSH";
    case WcOpcode::kAtomicWrite:
      return "ATOMIC_WRITE";
    case WcOpcode::kRecv:
      return "RECV";
    case WcOpcode::kRecvWithImm:
      return "RECV_RDMA_WITH_IMM";
  }
  return "?";
}

std::string_view name_of(nic::Event::Kind kind) {
  using K = nic::Event::Kind;
  switch (kind) {
    case K::kCqNotify:
      return "completion channel";
    case K::kCqErr:
      return "CQ_ERR";
    case K::kQpFatal:
      return "QP_FATAL";
    case K::kQpReqErr:
      return "QP_REQ_ERR";
    case K::kQpAccessErr:
      return "QP_ACCESS_ERR";
    case K::kCommEst:
      return "COMM_EST";
    case K::kSqDrained:
      return "SQ_DRAINED";
    case K::kLastWqeReached:
      return "last WQE reached";
    case K::kSrqLimitReached:
      return "SRQ limit reached";
  }
  return "?";
}

std::uint32_t access_of(const Command& command) {
  std::uint32_t access = 0;
  if (command.lists("access", "lw")) access |= nic::kLocalWrite;
  if (command.lists("access", "rw")) access |= nic::kRemoteWrite;
  if (command.lists("access", "rr")) access |= nic::kRemoteRead;
  if (command.lists("access", "ra")) access |= nic::kRemoteAtomic;
  if (command.lists("access", "mb")) access |= nic::kMwBind;
  return access;
}

/// For UD QPs, where the script names no other.
constexpr std::uint32_t kQkey = 0x11111111;

std::uint32_t crc32(Bytes bytes) {
  std::uint32_t crc = ~0u;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (0xEDB88320u & (0u - (crc & 1)));
  }
  return ~crc;
}

std::uint8_t u8(std::uint64_t value) { return static_cast<std::uint8_t>(value); }
std::uint32_t u32(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

Differences differ_if(bool different, std::string aspect, std::string rxe, std::string ours, std::string where) {
  if (!different) return {};
  return {{std::move(aspect), std::move(rxe), std::move(ours), std::move(where)}};
}

Differences compare_errno(const Command& command, nic::Errno ours) {
  const int rxe = command.reply().at("ok").get<bool>() ? 0 : command.reply().value("errno", -1);
  return differ_if(rxe != ours, "errno", std::to_string(rxe), std::to_string(ours), command.line());
}

/// In a failed completion, wr_id, status, QP and vendor_err are defined (ibv_poll_cq(3)); src_qp is UD's.
Differences compare_completions(const json& rxe, const Completion& ours) {
  const std::string where = "completion of wr " + std::to_string(rxe.at("wr_id").get<std::uint64_t>());
  Differences out;
  const auto compare = [&](const char* aspect, const std::string& a, const std::string& b) {
    if (a != b) out.push_back({aspect, a, b, where});
  };
  compare("completion wr_id", std::to_string(rxe.at("wr_id").get<std::uint64_t>()), std::to_string(ours.wr_id));
  compare("completion status", rxe.at("status"), std::string(kStatuses[static_cast<std::size_t>(ours.status)]));
  compare("completion vendor_err", rxe.at("vendor_err").dump(), std::string("0"));
  if (rxe.at("status") != "SUCCESS" || ours.status != WcStatus::kSuccess) return out;
  compare("completion opcode", rxe.at("opcode"), std::string(name_of(ours.opcode)));
  compare("completion byte_len", rxe.at("byte_len").dump(), std::to_string(ours.byte_len));
  compare("completion flags", rxe.at("flags").dump(), std::to_string(ours.flags));
  if ((ours.flags & nic::kWcGrh) != 0)
    compare("completion src_qp", rxe.at("src_qp").dump(), std::to_string(ours.src_qp));
  const bool invalidates = (ours.flags & nic::kWcWithInv) != 0;
  if (rxe.contains("imm"))
    compare("completion imm", rxe.at("imm").dump(), std::to_string(invalidates ? ours.invalidated_rkey : ours.imm));
  return out;
}

}  // namespace

Endpoint::Endpoint(const json& sidecar, Side side)
    : rxe_(sidecar.at("endpoints").at(std::string(1, letter(side)))),
      mtu_(sidecar.at("mtu")),
      nic_(nic::NicConfig{.gids = {}}) {
  rxe_qpn_ = rxe_.at("qpn");
  rxe_key_ = rxe_.at("mr").at("rkey");
  for (const Command& command : commands(sidecar, "setup")) {
    if (command.at() != side) continue;
    const Differences differences = execute(command);
    if (!differences.empty()) throw std::runtime_error("setup went otherwise than in the lab: " + command.line());
  }
}

Differences Endpoint::execute(const Command& command) {
  const std::string& verb = command.verb();
  if (verb == "open" || verb == "ch") return {};
  if (verb == "pd") {
    pd_ = nic_.alloc_pd();
  } else if (verb == "mr") {
    memory_.assign(command.number("len", 0), 0);
    mr_ = *nic_.mrs().add(pd_, memory_.data(), memory_.size(), command.number("va", 0), access_of(command));
  } else if (verb == "fill") {
    for (std::size_t i = 0; i < memory_.size(); ++i) memory_[i] = u8(command.number("seed", 0) + i + (i >> 8));
  } else if (verb == "set") {
    const std::vector<std::uint8_t> bytes = proto::test::from_hex(command.text("hex"));
    std::copy(bytes.begin(), bytes.end(), memory_at(command.number("off", 0), bytes.size()));
  } else if (verb == "cq") {
    cq_ = *nic_.create_cq(u32(command.number("cqe", 64)), nullptr);
  } else if (verb == "mw") {
    mw_ = *nic_.mrs().add_window(pd_, static_cast<nic::MwType>(command.number("type", 1)));
  } else if (verb == "bindmw") {
    return compare_errno(command, post_bind(command));
  } else if (verb == "srq") {
    srq_ = *nic_.create_srq({pd_, u32(command.number("wr", 0)), u32(command.number("sge", 1)), nullptr});
  } else if (verb == "modsrq") {
    return compare_errno(command, srq_->arm(u32(command.number("limit", 0))));
  } else if (verb == "qp") {
    create_qp(command);
  } else if (verb == "ah") {
    handles_[command.text("name")] = path(command, 0);
  } else if (verb == "destroy" && command.text("name") == "qp") {
    nic_.destroy_qp(qp_);
    qp_ = nullptr;
  } else if (verb == "notify") {
    cq_->arm(command.number("sol", 0) != 0);
  } else if (verb == "event") {
    const bool ours = take_notification();
    const bool rxe = command.reply().at("event");
    return differ_if(rxe != ours, "notification", rxe ? "yes" : "no", ours ? "yes" : "no", command.line());
  } else if (verb == "mod") {
    return compare_errno(command, modify(command));
  } else if (verb == "post") {
    return compare_errno(command, post_send(command));
  } else if (verb == "recv") {
    return compare_errno(command, post_recv(command));
  } else if (verb == "poll") {
    return poll(command);
  } else if (verb == "async") {
    return take_async_events(command);
  } else if (verb == "query") {
    return query(command);
  } else if (verb == "sum" || verb == "peek") {
    return compare_memory(command);
  } else {
    throw NotOffered(command.line());
  }
  return {};
}

void Endpoint::create_qp(const Command& command) {
  nic::QpInit init;
  const std::string type = command.text("type");
  init.type = type == "rc" ? nic::QpType::kRc : type == "uc" ? nic::QpType::kUc : nic::QpType::kUd;
  init.pd = pd_;
  init.send_cq = init.recv_cq = cq_;
  if (command.has("srq")) init.srq = srq_;
  init.max_send_wr = u32(command.number("swr", 16));
  init.max_recv_wr = u32(command.number("rwr", 16));
  init.max_send_sge = u32(command.number("ssge", 2));
  init.max_recv_sge = u32(command.number("rsge", 2));
  init.max_inline = u32(command.number("inl", 0));
  qp_ = *nic_.create_qp(init);
  our_qpn_ = qp_->qpn();
}

/// The hop limit, traffic class and flow label (none) that verbs/ibverbs would make of the address vector.
nic::Path Endpoint::path(const Command& command, std::uint32_t dest_qpn) const {
  nic::Path path;
  path.source = *proto::parse_gid(rxe_.at("ip").get<std::string>());
  path.destination = *proto::parse_gid(command.text("gid"));
  path.tclass = u8(command.number("tc", 0));
  path.hop_limit = u8(command.number("hop", 64));
  path.source_port = proto::flow_source_port(u32(command.number("fl", 0)), rxe_qpn_, dest_qpn);
  return path;
}

void Endpoint::hear_of_no_credits(Instant now) {
  if (qp_ == nullptr || qp_->type() != nic::QpType::kRc) return;
  const nic::QpAttr& attr = qp_->attr();
  proto::Path path = attr.path;
  std::swap(path.source, path.destination);
  std::vector<std::uint8_t> bytes(proto::kMaxPacketSize);
  proto::PacketBuilder ack(bytes, proto::Opcode::kRcAcknowledge);
  ack.bth().set<proto::Bth::DestQp>(our_qpn_).set<proto::Bth::PsnField>((attr.sq_psn - 1).value());
  ack.header<proto::Aeth>().set<proto::Aeth::SyndromeField>(proto::encode_syndrome(proto::syndrome::Ack{}));
  bytes.resize(ack.finish(path));
  nic_.on_datagram({path, bytes}, now);
}

nic::Errno Endpoint::modify(const Command& command) {
  using namespace nic;
  QpAttr attr;
  const std::string state = command.text("state");
  for (std::size_t i = 0; i < kStates.size(); ++i) {
    const auto same = [](char a, char b) { return a == (b | 0x20); };
    if (std::equal(state.begin(), state.end(), kStates[i].begin(), kStates[i].end(), same)) attr.state = QpState(i);
  }
  if (attr.state == QpState::kInit) {
    attr.qkey = u32(command.number("qkey", kQkey));
    attr.access = command.has("access") ? access_of(command) : 0xF;
  } else if (attr.state == QpState::kRtr) {
    const std::uint64_t mtu = command.number("mtu", 1024);
    while (proto::mtu_bytes(attr.path_mtu) != mtu) ++attr.path_mtu;
    attr.dest_qpn = u32(command.number("dqpn", 0));
    attr.rq_psn = Psn{u32(command.number("rpsn", 0))};
    attr.max_dest_rd_atomic = u8(command.number("drd", 4));
    attr.min_rnr_timer = u8(command.number("minrnr", 12));
    if (command.has("gid")) attr.path = path(command, attr.dest_qpn);
  } else if (attr.state == QpState::kRts) {
    attr.timeout = u8(command.number("timeout", 18));
    attr.retry_cnt = u8(command.number("retry", 7));
    attr.rnr_retry = u8(command.number("rnr", 7));
    attr.max_rd_atomic = u8(command.number("rd", 4));
    attr.sq_psn = Psn{u32(command.number("spsn", 0))};
  }
  return nic_.modify_qp(qp_, attr, kAttrState | mask_for(attr.state));
}

/// What the transition needs. The lab gave no more to any of them.
std::uint32_t Endpoint::mask_for(nic::QpState to) const {
  const auto verdict = nic::check_transition(qp_->type(), qp_->state(), to, nic::kAttrState);
  return verdict.code == nic::TransitionVerdict::Code::kMissingAttr ? verdict.offending : 0;
}

std::vector<nic::Sge> Endpoint::sges(const Command& command) const {
  std::vector<nic::Sge> out;
  for (const std::string& word : split(command.text("sge"), ',')) {
    const std::vector<std::string> parts = split(word, ':');  // mr:OFFSET:LENGTH
    const std::uint64_t address = mr_->iova + std::stoull(parts.at(1));
    const std::uint32_t key = command.has("lkey") ? u32(command.number("lkey", 0)) : mr_->key;
    out.push_back({address, u32(std::stoull(parts.at(2))), key});
  }
  return out;
}

std::uint32_t Endpoint::packets_of(const Command& post) const {
  if (post.text("op") == "cas" || post.text("op") == "faa") return 1;
  if (post.text("op") == "bind" || post.text("op") == "inv") return 0;
  std::uint32_t length = 0;
  for (const std::string& word : split(post.text("sge"), ',')) length += u32(std::stoull(split(word, ':').at(2)));
  return length == 0 ? 1 : (length + mtu_ - 1) / mtu_;
}

nic::Errno Endpoint::post_send(const Command& command) {
  const auto op =
      std::find_if(kOps.begin(), kOps.end(), [&](auto& known) { return known.first == command.text("op"); });
  if (op == kOps.end()) throw NotOffered(command.line());
  if (command.text("op") == "bind") return post_bind(command);
  nic::SendWr wr;
  wr.wr_id = command.number("wr", 0);
  wr.op = op->second;
  if (!command.has("f") || command.lists("f", "sig")) wr.flags |= nic::kSignaled;
  if (command.lists("f", "sol")) wr.flags |= nic::kSolicited;
  if (command.lists("f", "fence")) wr.flags |= nic::kFence;
  wr.imm = u32(command.number("imm", 0));
  wr.remote_addr = command.number("raddr", 0);
  wr.rkey = u32(command.number(command.has("inv") ? "inv" : "rkey", 0));
  wr.compare_add = command.number("cmp", 0);
  wr.swap = command.number("swp", 0);
  std::vector<nic::Sge> list = sges(command);
  const std::uint64_t value = command.number("val", 0);  // For an ATOMIC WRITE; nothing else is ever inline.
  if (command.has("val")) {
    list = {{reinterpret_cast<std::uintptr_t>(&value), sizeof value, 0}};
    wr.flags |= nic::kInline;
  }
  wr.sges = list;
  nic::UdTarget target;
  if (command.has("ah")) {
    target = {handles_.at(command.text("ah")), u32(command.number("rqpn", 0)), u32(command.number("rqkey", kQkey))};
    wr.target = &target;
  }
  return nic_.post_send(qp_, wr);
}

/// A bind, under the key that follows the window's; rxe's, too, in the reply, is its next one.
nic::Errno Endpoint::post_bind(const Command& command) {
  nic::SendWr wr;
  wr.wr_id = command.number("wr", 0);
  wr.op = nic::SendOp::kBindMw;
  wr.flags = nic::kSignaled;
  wr.bind.window = mw_->key;
  wr.bind.new_key = (mw_->key & ~0xFFu) | ((mw_->key + 1) & 0xFF);
  wr.bind.lkey = mr_->key;
  wr.bind.addr = command.number("baddr", 0);
  wr.bind.length = command.number("blen", 0);
  for (const auto& [word, right] :
       {std::pair{"rw", nic::kRemoteWrite}, {"rr", nic::kRemoteRead}, {"ra", nic::kRemoteAtomic}}) {
    if (command.lists("bacc", word)) wr.bind.access |= right;
  }
  rxe_window_key_ = command.reply().at("rkey");
  our_window_key_ = wr.bind.new_key;
  const nic::Errno error = nic_.post_send(qp_, wr);
  // In the setup nobody else turns the crank, and there is nothing to send yet.
  std::vector<std::uint8_t> frame(proto::kMaxPacketSize);
  if (nic_.poll_transmit({}, frame)) throw std::runtime_error("a bind sends nothing");
  return error;
}

std::uint32_t Endpoint::key_of(std::uint32_t in_capture) const {
  if (rxe_window_key_ != 0 && in_capture >> 8 == rxe_window_key_ >> 8) {
    return our_window_key_ + (in_capture - rxe_window_key_);
  }
  return mr_->key + (in_capture - rxe_key_);
}

nic::Errno Endpoint::post_recv(const Command& command) {
  const std::vector<nic::Sge> list = sges(command);
  const nic::RecvWr wr{command.number("wr", 0), list};
  return command.has("srq") ? srq_->post(wr) : nic_.post_recv(qp_, wr);
}

Differences Endpoint::poll(const Command& command) {
  std::vector<Completion> ours(command.number("n", 1));
  std::vector<json> rxe = command.reply().at("wc");
  rxe.resize(std::min(rxe.size(), ours.size()));  // One log lists the completions of a later poll as well.
  ours.resize(cq_->poll(ours));
  Differences out;
  for (std::size_t i = 0; i < std::max(rxe.size(), ours.size()); ++i) {
    if (i >= ours.size()) {
      out.push_back({"completion", rxe[i].at("status"), "none", "wr " + rxe[i].at("wr_id").dump()});
    } else if (i >= rxe.size()) {
      out.push_back({"completion", "none", std::string(kStatuses[static_cast<std::size_t>(ours[i].status)]),
                     "wr " + std::to_string(ours[i].wr_id)});
    } else {
      for (Difference& difference : compare_completions(rxe[i], ours[i])) out.push_back(std::move(difference));
    }
  }
  return out;
}

bool Endpoint::take_notification() {
  bool found = false;
  while (const auto event = nic_.poll_event()) {
    const bool notification = event->kind == nic::Event::Kind::kCqNotify;
    found |= notification;
    if (!notification) events_.push_back(*event);
  }
  return found;
}

Differences Endpoint::take_async_events(const Command& command) {
  std::string rxe, ours;
  for (const auto& name : command.reply().at("events")) rxe += (rxe.empty() ? "" : ", ") + name.get<std::string>();
  if (take_notification()) ours = "completion channel";
  for (const nic::Event& event : events_) (ours += ours.empty() ? "" : ", ") += name_of(event.kind);
  events_.clear();
  return differ_if(rxe != ours, "async events", rxe.empty() ? "none" : rxe, ours.empty() ? "none" : ours, {});
}

Differences Endpoint::compare_memory(const Command& command) {
  const std::size_t length = command.number("len", 0);
  const Bytes bytes(memory_at(command.number("off", 0), length), length);
  const bool sum = command.verb() == "sum";
  const std::string ours = sum ? std::to_string(crc32(bytes)) : proto::test::to_hex(bytes);
  const std::string rxe = sum ? command.reply().at("crc32").dump() : command.reply().at("hex").get<std::string>();
  return differ_if(rxe != ours, "memory", rxe, ours, command.line());
}

Differences Endpoint::query(const Command& command) const {
  const std::string rxe = command.reply().at("state");
  const std::string ours(kStates[static_cast<std::size_t>(qp_->state())]);
  return differ_if(rxe != ours, "QP state", rxe, ours, {});
}

std::uint32_t Endpoint::qpn_of(std::uint32_t in_capture) const {
  return in_capture == rxe_qpn_ ? our_qpn_ : in_capture + 0x100000;  // In another slot, which no NIC has.
}

std::uint8_t* Endpoint::memory_at(std::size_t offset, std::size_t length) {
  if (length > memory_.size() || offset > memory_.size() - length) throw std::out_of_range("outside of the MR");
  return memory_.data() + offset;
}

}  // namespace uroce::replay
