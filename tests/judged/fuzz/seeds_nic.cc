// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_responder and fuzz_requester that are written by hand: ordinary traffic, so that the fuzzer starts deep
// inside, and the packets that have crashed other implementations.
#include "tests/judged/fuzz/seeds.h"
#include "verbs/nic/model/types.h"

namespace uroce::fuzz {
namespace {

using O = proto::Opcode;
using F = PacketSpec;

PacketSpec payload(int size) {
  PacketSpec spec;
  spec.size = static_cast<std::uint16_t>(size + 1);
  return spec;
}

PacketSpec with(std::uint8_t flags) {
  PacketSpec spec;
  spec.flags = flags;
  return spec;
}

PacketSpec at(Region region, std::int16_t offset, std::uint32_t length = 0) {
  PacketSpec spec;
  spec.region = region;
  spec.offset = offset;
  spec.length = length;
  return spec;
}

SendSpec send(nic::SendOp op, std::uint16_t length, std::uint8_t flags = 0, std::uint8_t region = kLocal) {
  SendSpec spec;
  spec.op =
      static_cast<std::uint8_t>((static_cast<unsigned>(op) + 10 - static_cast<unsigned>(nic::SendOp::kSend)) % 10);
  spec.flags = flags;
  spec.remote_addr = 0x1000;
  spec.local.region = static_cast<std::uint8_t>(region + kRegions - kLocal);
  spec.local.length = static_cast<std::uint16_t>(length + 1);
  return spec;
}

/// A WRITE of `packets` packets of 256 bytes.
NicSeed& write(NicSeed& seed, std::uint8_t packets, O last = O::kRcWriteLast) {
  PacketSpec first;
  first.length = packets * 256u + 1;
  seed.packet(O::kRcWriteFirst, first);
  for (int i = 2; i < packets; ++i) seed.packet(O::kRcWriteMiddle);
  return seed.packet(last, payload(256));
}

void add_good_requests(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const std::string& name, const NicSeed& seed) {
    seeds.push_back({"responder", "good_" + name, seed.bytes()});
  };
  add("nothing", NicSeed());
  add("send", NicSeed()
                  .packet(O::kRcSendOnly)
                  .packet(O::kRcSendFirst)
                  .packet(O::kRcSendMiddle)
                  .packet(O::kRcSendLastImm, payload(3)));
  NicSeed writes;
  write(writes, 2);
  write(writes, 5, O::kRcWriteLastImm).packet(O::kRcWriteOnlyImm).packet(O::kRcWriteOnly, payload(0));
  add("write", writes);
  add("read", NicSeed().packet(O::kRcReadRequest).packet(O::kRcReadRequest, at(kReadable, 0, 1025)));
  add("atomic", NicSeed().packet(O::kRcFetchAdd).packet(O::kRcCompareSwap).again().again(1));
  add("duplicates", NicSeed()
                        .packet(O::kRcSendOnly)
                        .again()
                        .packet(O::kRcReadRequest, at(kOpen, 0, 2049))
                        .again()
                        .packet(O::kRcFetchAdd)
                        .again(1)
                        .again(1)
                        .again(1));
  PacketSpec ahead;
  ahead.psn = 1;
  add("gap", NicSeed().packet(O::kRcSendOnly, ahead).packet(O::kRcSendOnly).again(1));
  NicSeed starved;
  for (int i = 0; i < 6; ++i) starved.packet(O::kRcSendOnly);
  starved.add(kPostRecv, RecvSpec{}).packet(O::kRcSendOnly);
  add("receiver_not_ready", starved);
  Setup wrap;
  wrap.rq_psn = 0xFFFFFE;
  add("psn_wraps", NicSeed(wrap).packet(O::kRcReadRequest, at(kOpen, 0, 1025)).packet(O::kRcSendOnly).again(1));
  Setup six;
  six.flags = Setup::kIpv6;
  six.mtu = 4;
  PacketSpec page;
  page.length = 2 * 4096 + 1;
  add("ipv6_mtu_4096", NicSeed(six).packet(O::kRcWriteFirst, page).packet(O::kRcWriteLast, payload(4096)));
  add("queued_answers", NicSeed()
                            .add(kPacket | kHold,
                                 [] {
                                   PacketSpec read = at(kOpen, 0, 4097);
                                   read.opcode = static_cast<std::uint8_t>(O::kRcReadRequest);
                                   return read;
                                 }())
                            .packet(O::kRcFetchAdd)
                            .packet(O::kRcSendOnly));
  add("deregistered_in_mid_write", NicSeed()
                                       .packet(O::kRcWriteFirst)
                                       .add(kRegister, RegisterSpec{kOpen, RegisterSpec::kRemove})
                                       .packet(O::kRcWriteLast, payload(256)));
  add("reset_in_mid_send", NicSeed().packet(O::kRcSendFirst).add(kModify, ModifySpec{}).packet(O::kRcSendOnly));
}

/// Packets that can't be what they say, and those that crashed others.
void add_malformed_requests(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const std::string& name, const NicSeed& seed) {
    seeds.push_back({"responder", "bad_" + name, seed.bytes()});
  };
  // Opcodes without a row in the table. rxe indexed its table with any byte: an empty row says "header of 0 bytes", and
  // the ICRC was computed over a negative length. Not even a QP was needed.
  NicSeed unknown;
  for (const int opcode : {0x15, 0x18, 0x1B, 0x1C, 0x1E, 0x1F, 0x2C, 0x40, 0x60, 0x66, 0x80, 0x82, 0xA0, 0xC0, 0xFF}) {
    unknown.packet(static_cast<O>(opcode), payload(0)).packet(static_cast<O>(opcode), payload(32));
  }
  add("unknown_opcodes", unknown);
  std::vector<std::uint8_t> to_multicast(48);
  to_multicast[0] = 0xFF;
  to_multicast[2] = to_multicast[3] = 0xFF;  // P_Key
  to_multicast[5] = to_multicast[6] = to_multicast[7] = 0xFF;
  std::vector<std::uint8_t> shorter(to_multicast.begin(), to_multicast.begin() + 16);
  add("opcode_ff_to_multicast_qp",
      NicSeed().add_bytes(kAsIs, to_multicast).add_bytes(kRaw, shorter).add_bytes(kAsIs, shorter));
  // A pad count above the payload: payload_size() was negative, and taken for huge.
  NicSeed pads;
  for (const O opcode : {O::kRcSendOnly, O::kRcWriteOnly, O::kRcSendOnlyImm, O::kRcReadRequest, O::kRcAcknowledge,
                         O::kRcFetchAdd, O::kRcAtomicWrite, O::kRcReadResponseOnly}) {
    for (std::uint8_t pad = 1; pad <= 3; ++pad) {
      PacketSpec spec = payload(0);
      spec.pad = static_cast<std::uint8_t>(pad + 1);
      spec.cut = pad;  // No pad bytes after all.
      pads.packet(opcode, spec);
    }
  }
  add("pad_above_payload", pads);
  // ATOMIC WRITE is 8 bytes; rxe believed the packet.
  NicSeed atomic_writes;
  for (const int size : {0, 1, 4, 7, 8, 9, 12, 256}) {
    PacketSpec spec = payload(size);
    spec.length = 9;
    atomic_writes.packet(O::kRcAtomicWrite, spec);
  }
  add("atomic_write_sizes", atomic_writes);
  // FLUSH: of a range and of a region, for nothing, for what is reserved, for persistence.
  NicSeed flushes;
  for (const int other : {0x00, 0x10, 0x01, 0x05, 0x20, 0x03}) {
    PacketSpec spec;
    spec.operand = static_cast<std::uint64_t>(other);
    flushes.packet(O::kRcFlush, spec);
  }
  add("flush_kinds", flushes);
  NicSeed cut;
  for (const O opcode : {O::kRcWriteOnlyImm, O::kRcFetchAdd, O::kRcReadRequest, O::kRcSendOnlyInvalidate}) {
    for (std::uint8_t n = 1; n <= 40; n = static_cast<std::uint8_t>(n + 3)) {
      PacketSpec spec = payload(0);
      spec.cut = n;
      cut.packet(opcode, spec);
    }
  }
  add("truncated_headers", cut);
  add("raw_short", NicSeed()
                       .add_bytes(kAsIs, {})
                       .add_bytes(kAsIs, {4})
                       .add_bytes(kRaw, std::vector<std::uint8_t>(11))
                       .add_bytes(kRaw, std::vector<std::uint8_t>(12)));
}

/// Whole packets that a responder must refuse.
void add_bad_requests(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const std::string& name, const NicSeed& seed) {
    seeds.push_back({"responder", "bad_" + name, seed.bytes()});
  };
  // Each of these is refused for good, so that the QP has to be connected anew before the next.
  const auto refused = [&add](const std::string& name, const std::vector<std::pair<O, PacketSpec>>& packets) {
    NicSeed seed;
    for (const auto& [opcode, spec] : packets)
      seed.packet(opcode, spec).add(kModify, ModifySpec{}).add(kPostRecv, RecvSpec{});
    add(name, seed);
  };
  PacketSpec wrong_key;
  wrong_key.wrong_key = 1;
  refused("keys", {{O::kRcWriteOnly, wrong_key}, {O::kRcReadRequest, wrong_key}, {O::kRcFetchAdd, wrong_key}});
  refused(
      "foreign_pd",
      {{O::kRcWriteOnly, at(kForeign, 0)}, {O::kRcReadRequest, at(kForeign, 0)}, {O::kRcFetchAdd, at(kForeign, 0)}});
  refused("rights", {{O::kRcWriteOnly, at(kReadable, 0)},
                     {O::kRcWriteOnly, at(kLocal, 0)},
                     {O::kRcReadRequest, at(kLocal, 0)},
                     {O::kRcReadRequest, at(kWritable, 0)},
                     {O::kRcFetchAdd, at(kReadable, 0)},
                     {O::kRcCompareSwap, at(kWritable, 0)}});
  refused("bounds", {{O::kRcWriteOnly, at(kOpen, -1)},
                     {O::kRcWriteOnly, at(kOpen, 8192 - 7)},
                     {O::kRcReadRequest, at(kOpen, 8192 - 63)},
                     {O::kRcReadRequest, at(kReadable, -8)},
                     {O::kRcFetchAdd, at(kOpen, 8192)},
                     {O::kRcFetchAdd, at(kOpen, 4)},
                     {O::kRcFetchAdd, at(kOdd, 0)},
                     {O::kRcWriteOnly, at(kWritable, 1020)}});
  refused("lengths", {{O::kRcWriteFirst, at(kOpen, 0, 0x80000001)},
                      {O::kRcWriteFirst, at(kOpen, 0, 0x80000002)},
                      {O::kRcWriteFirst, at(kOpen, 0, 0xFFFFFFFF)},
                      {O::kRcReadRequest, at(kOpen, 0, 0x80000001)},
                      {O::kRcReadRequest, at(kOpen, 0, 0xFFFFFFFF)},
                      {O::kRcWriteOnly, at(kOpen, 0, 1)},
                      {O::kRcWriteOnly, at(kOpen, 0, 10)},
                      {O::kRcWriteFirst, payload(255)},
                      {O::kRcSendFirst, payload(257)},
                      {O::kRcSendOnly, payload(257)},
                      {O::kRcSendOnly, payload(4096)},
                      {O::kRcSendFirst, payload(0)}});
  refused("sequence",
          {{O::kRcSendMiddle, {}}, {O::kRcSendLast, {}}, {O::kRcWriteMiddle, {}}, {O::kRcWriteLastImm, {}}});
  add("message_in_message", NicSeed()
                                .packet(O::kRcSendFirst)
                                .packet(O::kRcWriteOnly)
                                .add(kModify, ModifySpec{})
                                .packet(O::kRcWriteFirst)
                                .packet(O::kRcSendLast));
  NicSeed more;
  more.packet(O::kRcWriteFirst).packet(O::kRcWriteMiddle).packet(O::kRcWriteMiddle);
  add("write_more_than_announced", more);
  NicSeed longer;
  for (int i = 0; i < 4; ++i) longer.packet(i == 0 ? O::kRcSendFirst : O::kRcSendMiddle);
  add("send_longer_than_receive", longer);
  NicSeed reads;
  for (int i = 0; i < 12; ++i) reads.add_bytes(kPacket | kHold, {static_cast<std::uint8_t>(O::kRcReadRequest)});
  add("more_reads_than_agreed", reads);
  // QP 1 lets its peer read only.
  PacketSpec other;
  other.qp = 1;
  add("operations_not_offered", NicSeed().packet(O::kRcReadRequest, other).packet(O::kRcWriteOnly, other));
  add("invalidate", NicSeed().packet(O::kRcSendOnlyInvalidate));
  add("not_for_us", NicSeed()
                        .packet(O::kRcSendOnly, with(F::kStranger))
                        .packet(O::kRcSendOnly, with(F::kBadIcrc))
                        .packet(O::kRcSendOnly, with(F::kWrongPkey))
                        .packet(O::kRcSendOnly, with(F::kOtherQpn))
                        .packet(O::kUcSendOnly)
                        .packet(O::kUdSendOnly)
                        .packet(O::kCnp)
                        .packet(O::kRcSendOnly, with(F::kMarked | F::kIpId)));
}

void add_good_responses(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const std::string& name, const NicSeed& seed) {
    seeds.push_back({"requester", "good_" + name, seed.bytes()});
  };
  add("nothing", NicSeed());
  add("all_answered", NicSeed().honest(255).honest(255).honest(255).honest(255));
  NicSeed one_by_one;
  for (int i = 0; i < 24; ++i) one_by_one.honest();
  add("one_by_one", one_by_one);
  NicSeed timeouts;
  for (int i = 0; i < 24; ++i) timeouts.time();
  add("silence", timeouts);
  add("timeout_then_answers", NicSeed().time().time().honest(255).honest(255));
  add("rnr", NicSeed().honest(0, 1 + 0x20 + 5).time().honest(0, 1 + 0x20).time().honest(255));
  add("sequence_naks", NicSeed().honest(0, 1 + 0x60).honest(1).honest(0, 1 + 0x60).honest(255));
  add("duplicate_answers", NicSeed().honest(3).again().again(1).again(2).again(3));
  Setup wrap;
  wrap.sq_psn = 0xFFFFFC;
  add("psn_wraps", NicSeed(wrap).honest(255).honest(255));
  Setup shy;
  shy.rd_atomic = 5;  // 1 READ at a time
  shy.flags = Setup::kTinyWindow | Setup::kSignalAll;
  add("narrow", NicSeed(shy).honest(255).honest(255).honest(255).time().honest(255));
  add("fence_and_inline", NicSeed()
                              .honest(255)
                              .add(kPostSend, send(nic::SendOp::kRead, 600))
                              .add(kPostSend, send(nic::SendOp::kSend, 60, nic::kFence | nic::kInline))
                              .honest(255));
  add("drain", NicSeed()
                   .add(kModify, ModifySpec{0, ModifySpec::kSqd, 1})
                   .honest(255)
                   .add(kModify, ModifySpec{0, ModifySpec::kSqd, 3})
                   .add(kModify, ModifySpec{0, ModifySpec::kRts, 0})
                   .honest(255));
  // Two credits, none, two more, and an MSN that is a lie.
  Setup nothing;
  nothing.flags = Setup::kNothingPosted;
  NicSeed credits(nothing);
  for (int i = 0; i < 8; ++i) credits.add(kPostSend, send(nic::SendOp::kSend, 8));
  for (const auto& [code, msn] : {std::pair{2, 1}, {0, 2}, {0, 3}, {2, 3}, {30, 0xFFFFFF}}) {
    PacketSpec ack;
    ack.syndrome = static_cast<std::uint8_t>(1 + code);
    ack.compare = static_cast<std::uint64_t>(msn);
    credits.packet(O::kRcAcknowledge, ack);
  }
  add("credits", credits);
  SendSpec pieces = send(nic::SendOp::kRead, 0, 0, kOpen);
  pieces.local.sges = 5;
  pieces.local.length = 8192;
  add("long_read", NicSeed().honest(255).honest(255).add(kPostSend, pieces).add(kPostSend, pieces).honest(255));
  // Both are under way, and go back after a timeout; the second can't be sent again; then both are acknowledged.
  add("acknowledged_though_no_longer_sendable", NicSeed()
                                                    .honest(255)
                                                    .honest(255)
                                                    .add(kPostSend, send(nic::SendOp::kSend, 8))
                                                    .add(kPostSend, send(nic::SendOp::kSend, 8, 0, kOpen))
                                                    .add(kRegister, RegisterSpec{kOpen, RegisterSpec::kRemove})
                                                    .time()
                                                    .time()
                                                    .packet(O::kRcAcknowledge, [] {
                                                      PacketSpec spec;
                                                      spec.psn = 1;
                                                      return spec;
                                                    }()));
}

void add_bad_responses(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const std::string& name, const NicSeed& seed) {
    seeds.push_back({"requester", "bad_" + name, seed.bytes()});
  };
  NicSeed syndromes;
  for (int s = 0; s < 256; s += 3) {
    syndromes.honest(0, static_cast<std::uint8_t>(s + 1))
        .add(kModify, ModifySpec{})
        .add(kPostSend, send(nic::SendOp::kSend, 9));
  }
  add("syndromes", syndromes);
  NicSeed unasked;
  for (const O opcode : {O::kRcReadResponseOnly, O::kRcReadResponseFirst, O::kRcReadResponseMiddle,
                         O::kRcReadResponseLast, O::kRcAtomicAcknowledge}) {
    unasked.packet(opcode).add(kModify, ModifySpec{}).add(kPostSend, send(nic::SendOp::kSend, 9));
  }
  add("data_nobody_asked_for", unasked);
  // A READ of three packets, answered wrongly at each place.
  const auto in_read = [&add](const std::string& name, O opcode, int size) {
    add(name, NicSeed().honest(5).packet(O::kRcReadResponseFirst).packet(opcode, payload(size)));
  };
  in_read("read_ends_early", O::kRcReadResponseLast, 256);
  in_read("read_short_packet", O::kRcReadResponseMiddle, 252);
  in_read("read_long_packet", O::kRcReadResponseMiddle, 4096);
  in_read("read_only_in_the_middle", O::kRcReadResponseOnly, 256);
  in_read("atomic_ack_in_read", O::kRcAtomicAcknowledge, 0);
  in_read("ack_in_read", O::kRcAcknowledge, 0);
  PacketSpec beyond;
  beyond.psn = 100;
  PacketSpec before;
  before.psn = -1;
  add("outside_the_window", NicSeed()
                                .packet(O::kRcAcknowledge, beyond)
                                .packet(O::kRcAcknowledge, before)
                                .packet(O::kRcReadResponseOnly, beyond)
                                .packet(O::kRcReadResponseOnly, before));
  PacketSpec later;
  later.psn = 9;
  add("answer_behind_a_read",
      NicSeed().packet(O::kRcAcknowledge, later).packet(O::kRcAcknowledge, later).time().honest(255));
  add("answers_after_rewind", NicSeed().honest(0, 1 + 0x60).again().packet(O::kRcAcknowledge, later).honest(255));
  add("read_target_deregistered",
      NicSeed().add(kRegister, RegisterSpec{kLocal, RegisterSpec::kRemove}).honest(255).honest(255));
  add("in_reset",
      NicSeed().honest().add(kModify, ModifySpec{0, ModifySpec::kReset, 0}).again().packet(O::kRcAcknowledge));
  add("in_error",
      NicSeed().honest().add(kModify, ModifySpec{0, ModifySpec::kErr, 0}).again().packet(O::kRcAcknowledge));
  Setup tiny;
  tiny.flags = Setup::kTinyCq;
  add("cq_overflow", NicSeed(tiny).honest(255).honest(255));
}

/// UC and UD: whole messages, ones that lack a packet, and ones that nobody may take.
void add_unacked_requests(std::vector<Seed>& seeds) {
  Setup uc;
  uc.flags = Setup::kUc;
  PacketSpec gap = payload(9);
  gap.psn = 1;
  NicSeed messages(uc);
  messages.packet(O::kUcSendOnly)
      .packet(O::kUcSendFirst)
      .packet(O::kUcSendMiddle)
      .packet(O::kUcSendLastImm, payload(3));
  messages.packet(O::kUcSendFirst).packet(O::kUcSendLast, gap).packet(O::kUcSendOnly, gap).packet(O::kUcSendMiddle);
  messages.packet(O::kUcSendFirst).packet(O::kUcSendFirst).packet(O::kUcWriteMiddle).packet(O::kUcSendLast).again(2);
  seeds.push_back({"responder", "good_uc_send", messages.bytes()});
  NicSeed writes(uc);
  writes.packet(O::kUcWriteOnly).packet(O::kUcWriteOnlyImm).packet(O::kUcWriteFirst);
  writes.packet(O::kUcWriteLastImm, payload(256)).packet(O::kUcWriteOnly, at(kForeign, 0)).packet(O::kUcWriteFirst);
  writes.add(kRegister, RegisterSpec{kOpen, RegisterSpec::kRemove}).packet(O::kUcWriteLast, payload(256));
  seeds.push_back({"responder", "good_uc_write", writes.bytes()});
  Setup ud;
  ud.flags = Setup::kUd;
  PacketSpec wrong;
  wrong.wrong_key = 1;
  NicSeed datagrams(ud);
  datagrams.packet(O::kUdSendOnly).packet(O::kUdSendOnlyImm, payload(472)).packet(O::kUdSendOnly, payload(473));
  datagrams.packet(O::kUdSendOnly, wrong).packet(O::kUdSendOnly, payload(0)).packet(O::kUdSendOnly, with(F::kIpId));
  datagrams.packet(O::kUdSendOnly, with(F::kStranger)).packet(O::kUcSendOnly).packet(O::kRcSendOnly);
  seeds.push_back({"responder", "good_ud", datagrams.bytes()});
}

/// Sends of UC and UD: many, ones that fail, and what follows in SQE.
void add_unacked_sends(std::vector<Seed>& seeds) {
  using nic::SendOp;
  for (const auto& [flag, name] : {std::pair{Setup::kUc, "good_uc"}, std::pair{Setup::kUd, "good_ud"}}) {
    Setup setup;
    setup.flags = static_cast<std::uint8_t>(flag | Setup::kTinyWindow);
    NicSeed seed(setup);
    for (int i = 0; i < 4; ++i)
      seed.add(kPostSend, send(SendOp::kSend, 700)).add(kPostSend, send(SendOp::kWriteImm, 300));
    SendSpec bad = send(SendOp::kSend, 100);
    bad.local.wrong_key = 1;
    seed.time().time().add(kPostSend, bad).time().add(kPostSend, send(SendOp::kSendImm, 10));
    seed.add(kModify, ModifySpec{0, ModifySpec::kRts, 0}).add(kPostSend, send(SendOp::kSend, 10)).time();
    seed.add(kModify, ModifySpec{0, ModifySpec::kSqd, 1}).add(kPostSend, send(SendOp::kSend, 5000)).time();
    seeds.push_back({"requester", name, seed.bytes()});
  }
}

}  // namespace

void add_responder_seeds(std::vector<Seed>& seeds) {
  add_unacked_requests(seeds);
  add_good_requests(seeds);
  add_malformed_requests(seeds);
  add_bad_requests(seeds);
}

void add_requester_seeds(std::vector<Seed>& seeds) {
  add_unacked_sends(seeds);
  add_good_responses(seeds);
  add_bad_responses(seeds);
}

}  // namespace uroce::fuzz
