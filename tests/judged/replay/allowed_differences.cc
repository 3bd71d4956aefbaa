// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/replay/allowed_differences.h"

#include <algorithm>
#include <array>

namespace uroce::replay {
namespace {

constexpr std::string_view kAccessErrors =
    "rc_err_*_rkey rc_err_*_rkey_key rc_err_*_no_permission rc_err_*_out_of_bounds rc_send_inv_m? rc_mw2_*";

constexpr std::array kAllowed{
    // Addressing.
    AllowedDifference{"v4_rc_tclass_ttl v6_rc_tclass_flow", "A", "hop limit", "64", "7",
                      "the kernel uses the route's hop limit instead of the QP's"},
    AllowedDifference{"ud_tos", "A", "hop limit", "64", "5",
                      "the kernel uses the route's hop limit instead of the address handle's"},
    AllowedDifference{"ud_*", "A", "source port", "*", "*",
                      "entropy: for a datagram, rxe uses the QP's number, we use the addresses"},
    // What the requester sends.
    AllowedDifference{
        "rc_*_64k_mtu1024 rc_write_157pkt_mtu256", "A", "BTH a", "*", "*",
        "inside a long message rxe asks for an ACK every 66 packets, we every 16, so that the window opens "
        "in time"},
    AllowedDifference{"rc_write_157pkt_mtu256", "A", "packet", "RC WRITE MIDDLE *psn=0x180 *", "none",
                      "128 packets fill our window; the next one waits for an ACK"},
    AllowedDifference{"rc_write_157pkt_mtu256", "A", "packet", "none", "RC WRITE MIDDLE *psn=0x180 *",
                      "and goes when that has come"},
    AllowedDifference{
        "loss_read_response_middle", "A", "time", "", "earlier",
        "a READ response behind a gap is an implied NAK and repeats the request at once (9.7.5); rxe waits "
        "for its timeout, or for a response to another READ"},
    AllowedDifference{"rc_rnr_write_imm", "A", "packet", "RC WRITE FIRST *psn=0x100 *", "none",
                      "an RNR NAK acknowledges what is before its PSN (9.7.5.2.8); after the first one rxe begins the "
                      "message again"},
    AllowedDifference{"reorder_send", "A", "packet", "none", "RC SEND *psn=0x10? *",
                      "two NAKs in a row: we answer each of them; rxe had received both before it sent"},
    // What the responder answers.
    AllowedDifference{"*", "AB", "credit count", "31", "*",
                      "we announce the receives that are posted (9.7.7.2), rxe always says that it does not count"},
    AllowedDifference{
        "rc_rnr_multi_then_ok", "B", "packet", "RC ACK *NAK PSN sequence error*", "none",
        "after an RNR NAK the responder is silent until the refused packet comes again (9.7.5.2.8); rxe adds a "
        "NAK for the packets behind it"},
    AllowedDifference{"rc_rnr_write_imm", "B", "packet", "none", "RC ACK *ACK credits=1 msn=0",
                      "a receive that is posted when none was left is announced at once (9.7.7.2)"},
    AllowedDifference{"loss_read_response_middle loss_read_two_middle", "B", "BTH opcode", "14", "13",
                      "a READ that asks again for the rest is answered as any READ, from FIRST on; rxe goes on with "
                      "MIDDLE"},
    AllowedDifference{"loss_read_response_last", "B", "BTH opcode", "15", "16", "the same: ONLY, where rxe has LAST"},
    AllowedDifference{"rc_err_send_*too_long", "B", "AETH syndrome", "NAK remote operational error",
                      "NAK invalid request", "a SEND longer than the receive is an invalid request (9.9.3)"},
    AllowedDifference{
        "rc_send_inv_mr", "B", "AETH syndrome", "ACK", "NAK remote access error",
        "the R_Key of an ordinary region cannot be invalidated by a peer; rxe acknowledges and reports the "
        "error only on its own side"},
    AllowedDifference{"rc_mw2_access", "B", "AETH syndrome", "ACK", "NAK remote access error",
                      "a WRITE beyond the end of a window (10.6.7.1); rxe checks the bounds of the region only"},
    AllowedDifference{"rc_mw2_access", "B", "AETH msn", "3", "2", "follows from the NAK"},
    AllowedDifference{"rc_mw2_access", "B", "QP state", "RTS", "ERR", "follows from the NAK"},
    // Completions and events.
    AllowedDifference{"*", "AB", "completion flags", "1", "0",
                      "rxe sets IBV_WC_GRH on receives of RC, which have no GRH"},
    AllowedDifference{"*", "AB", "completion flags", "3", "2", "the same, with IBV_WC_WITH_IMM"},
    AllowedDifference{"rc_send_inv_m*", "B", "completion flags", "5", "8",
                      "the same, with IBV_WC_WITH_INV, for which rxe returns the kernel's number"},
    AllowedDifference{"*", "A", "completion flags", "2", "0",
                      "rxe sets IBV_WC_WITH_IMM on the sender's side too; it is for receives (ibv_poll_cq(3))"},
    AllowedDifference{"rc_err_send_*too_long", "B", "completion status", "LOC_QP_OP_ERR", "LOC_LEN_ERR",
                      "a message longer than the receive is a local length error (11.6.2)"},
    AllowedDifference{"rc_err_recv_*", "B", "completion status", "LOC_QP_OP_ERR", "LOC_PROT_ERR",
                      "a receive with a wrong L_Key or range is a local protection error (11.6.2)"},
    AllowedDifference{"uc_loss_send", "B", "completion", "none", "SUCCESS",
                      "only the message that lacks a packet is lost (9.8.2.2); rxe drops the good one behind it too"},
    AllowedDifference{kAccessErrors, "B", "async events", "none", "QP_ACCESS_ERR",
                      "the responder reports an access violation (11.6.3); rxe raises nothing before Linux 7.2"},
    AllowedDifference{"rc_err_*_qp_no_access rc_err_send_*too_long", "B", "async events", "none", "QP_REQ_ERR",
                      "the responder reports an invalid request (11.6.3)"},
    AllowedDifference{"rc_err_recv_*", "B", "async events", "none", "QP_FATAL",
                      "the responder reports its own operational error (11.6.3)"},
};

constexpr std::array kNotReplayed{
    NotReplayed{"cm_* loss_cm_*", "AB", "connection management: `ctest -L cm` replays them"},
    NotReplayed{"probe_*", "AB", "packets made by hand, without a record of the verbs"},
};

bool fits_any(std::string_view patterns, std::string_view text) {
  while (!patterns.empty()) {
    const std::size_t end = std::min(patterns.find(' '), patterns.size());
    if (fits(patterns.substr(0, end), text)) return true;
    patterns.remove_prefix(std::min(end + 1, patterns.size()));
  }
  return false;
}

bool has_side(std::string_view sides, Side side) { return sides.find(letter(side)) != std::string_view::npos; }

std::string row(std::initializer_list<std::string> columns) {
  std::string line = "|";
  for (const std::string& column : columns) line.append(" ").append(column).append(" |");
  return line + "\n";
}
std::string code(std::string_view text) {
  return text == "*" ? "any" : text.empty() ? "" : '`' + std::string(text) + '`';
}
std::string places(std::string_view sides) { return sides == "AB" ? "both" : sides == "A" ? "requester" : "responder"; }

}  // namespace

std::span<const AllowedDifference> allowed_differences() { return kAllowed; }
std::span<const NotReplayed> not_replayed() { return kNotReplayed; }

const AllowedDifference* allowed(const std::string& topic, Side side, const Difference& d) {
  const auto row = std::find_if(kAllowed.begin(), kAllowed.end(), [&](const AllowedDifference& a) {
    return fits_any(a.topics, topic) && has_side(a.sides, side) && a.aspect == d.aspect && fits(a.rxe, d.rxe) &&
           fits(a.ours, d.ours);
  });
  return row == kAllowed.end() ? nullptr : &*row;
}

const NotReplayed* excused(const std::string& topic, Side side) {
  const auto row = std::find_if(kNotReplayed.begin(), kNotReplayed.end(), [&](const NotReplayed& n) {
    return fits_any(n.topics, topic) && has_side(n.sides, side);
  });
  return row == kNotReplayed.end() ? nullptr : &*row;
}

bool fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() == '*') {
    return fits(pattern.substr(1), text) || (!text.empty() && fits(pattern, text.substr(1)));
  }
  return !text.empty() && (pattern.front() == '?' || pattern.front() == text.front()) &&
         fits(pattern.substr(1), text.substr(1));
}

std::string markdown() {
  std::string text =
      row({"topics", "we are the", "what", "rxe", "ours", "why"}) + "| --- | --- | --- | --- | --- | --- |\n";
  for (const AllowedDifference& a : kAllowed) {
    text +=
        row({code(a.topics), places(a.sides), std::string(a.aspect), code(a.rxe), code(a.ours), std::string(a.why)});
  }
  text += "\n" + row({"not replayed", "we are the", "why"}) + "| --- | --- | --- |\n";
  for (const NotReplayed& n : kNotReplayed) text += row({code(n.topics), places(n.sides), std::string(n.why)});
  return text;
}

}  // namespace uroce::replay
