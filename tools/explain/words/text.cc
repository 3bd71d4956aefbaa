// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/words/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "proto/address.h"
#include "proto/base/printable.h"

namespace uroce::explain {
namespace {

constexpr std::size_t kBuffered = 1 << 16;
/// Addresses with the same trouble.
constexpr std::size_t kSendersListed = 10;

std::string steps_text(const std::string& what, const std::vector<ClockStep>& steps) {
  if (steps.empty()) return {};
  const std::int64_t ns = steps.front().ns;
  return fmt::format("; its clock {}{} by {} at #{}, which is allowed for", what,
                     steps.size() == 1 ? "" : fmt::format(" {} times, first", steps.size()),
                     duration_text(ns < 0 ? -ns : ns), steps.front().frame);
}

/// How the clock of file number `i` was read.
std::string clock_text(const FileFacts& file, std::size_t i) {
  constexpr std::int64_t kSame = 1000;
  std::string text;
  if (i != 0 && file.clock_ahead_ns) {
    const std::int64_t ahead = *file.clock_ahead_ns;
    text = ahead > -kSame && ahead < kSame
               ? "; its clock is that of a"
               : fmt::format("; its clock is {} {} that of a, which is allowed for",
                             duration_text(ahead < 0 ? -ahead : ahead), ahead < 0 ? "behind" : "ahead of");
  }
  const bool falls_behind = !file.clock_steps.empty() && file.clock_steps.front().ns < 0;
  return text + steps_text("was set back", file.set_back) +
         steps_text(falls_behind ? "fell behind that of a" : "went ahead of that of a", file.clock_steps);
}

}  // namespace

void Text::line(const std::string& text) {
  buffer_ += proto::printable(text);
  buffer_ += '\n';
  if (buffer_.size() > kBuffered) flush();
}

void Text::warn(const std::string& text) {
  line("WARNING: " + text);
  line("");
}

void Text::flush() {
  std::fwrite(buffer_.data(), 1, buffer_.size(), out_);
  std::fflush(out_);
  buffer_.clear();
}

std::string Text::since_start(std::int64_t ns, const Story& story) const {
  const std::int64_t since = ns - story.totals().first_ns;  // Negative in captures that were put behind each other.
  return (since < 0 ? "" : "+") + duration_text(since);
}

void Text::introduce(const Connection& connection) {
  const bool known = connection.left.qpn.has_value();
  const auto [at, fresh] = introduced_.try_emplace(connection.number, known);
  if (!fresh && known && !at->second) {
    line(fmt::format("--- connection {}: A = {}", connection.number, text_of(connection.left)));
    at->second = true;
  }
  if (!fresh) return;
  line(fmt::format("--- connection {}, {}: A = {}, B = {}", connection.number, text_of(connection.service),
                   text_of(connection.left), text_of(connection.right)));
}

void Text::begin(const std::vector<Verdict>& verdicts) {
  for (const Verdict& verdict : verdicts) {
    line(verdict.sentence);
    line("  " + verdict.place);
  }
  if (!verdicts.empty()) line("");
}

void Text::packet(const Packet& packet, const Told& told, const Story& story) {
  if (!options_.packets) return;
  const Connection* const connection = story.connection(told.connection);
  if (connection != nullptr) introduce(*connection);
  const std::string who =
      connection != nullptr
          ? fmt::format("{:>3} {}", connection->number, told.from_left ? "A -> B" : "A <- B")
          : fmt::format("{} -> {}", proto::to_string(packet.source), proto::to_string(packet.destination));
  const double seconds = static_cast<double>(packet.time_ns - story.totals().first_ns) / 1e9;
  std::string psn = packet.cm ? "" : "PSN " + hex(packet.psn);
  if (packet.op->has(proto::HeaderId::kAeth)) psn += fmt::format(" msn {}", packet.msn);
  line(fmt::format("{:>7} {:>12.6f} {}  {:<22} {:<18} {:<36} {}", (*names_)(packet.place), seconds, who, what(packet),
                   psn, part_text(packet, told), why(packet, told, *names_)));
}

/// Rounds and incidents in the order of time.
void Text::troubles(const Numbers& numbers, const Story& story) {
  if (numbers.incidents.empty() && numbers.rounds.empty()) return;
  line("    what happened:");
  struct Row {
    std::int64_t time_ns;
    Place place;
    std::string text;
  };
  std::vector<Row> rows;
  for (const Incident& incident : numbers.incidents) {
    rows.push_back({incident.time_ns, incident.place, incident.note.text});
  }
  for (const Round& round : numbers.rounds) {
    std::string text =
        fmt::format("sent again: {} from PSN {} on, {}", counted(round.packets, "packet"), hex(round.psn),
                    because(round.reason, round.sure, round.cause, round.wait_ns, *names_));
    if (!round.finding.empty()) text += ": " + round.finding;
    rows.push_back({round.time_ns, round.first, std::move(text)});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.time_ns < b.time_ns; });
  for (const Row& row : rows) {
    line(fmt::format("      {:<6} {:<10} {}", (*names_)(row.place), since_start(row.time_ns, story), row.text));
  }
  const std::uint64_t more = numbers.more_incidents + numbers.more_rounds;
  if (more != 0) line(fmt::format("      and {} more: see them with --only problems", more));
}

void Text::direction(const Connection& connection, bool from_left, const Story& story) {
  const Stream& stream = from_left ? connection.to_right : connection.to_left;
  const Numbers& n = stream.numbers();
  if (n.packets == 0 && n.responses == 0) return;
  std::string head = fmt::format("  {} asks, {} answers", from_left ? 'A' : 'B', from_left ? 'B' : 'A');
  if (connection.service == proto::Service::kUc)
    head = fmt::format("  {} sends to {}", from_left ? 'A' : 'B', from_left ? 'B' : 'A');
  if (n.first_psn && n.last_psn) head += fmt::format("; PSN {} to {}", hex(*n.first_psn), hex(*n.last_psn));
  if (stream.mtu() != 0) head += fmt::format("; path MTU {}", stream.mtu());
  line(head);
  if (!stream.failure().empty()) line("    FAILED: " + stream.failure());
  for (std::size_t i = 0; i < kOperations; ++i) {
    const auto& row = n.operations[i];
    if (row.count == 0) continue;
    std::string text = "    " + operation_text(static_cast<Operation>(i), row);
    if (connection.service == proto::Service::kRc) {
      text += row.completed == row.count ? ", completed" : fmt::format(", {} completed", row.completed);
    }
    line(text);
  }
  const std::uint64_t again = n.resent();
  std::string sent = "    " + counted(n.packets, "request packet");
  if (again != 0)
    sent += fmt::format(", {} of them sent again ({:.1f} %)", again,
                        100.0 * static_cast<double>(again) / static_cast<double>(n.packets));
  const auto count = [&](Reason reason) { return n.reasons[static_cast<std::size_t>(reason)]; };
  std::string causes;
  for (const auto& [reason, name] : {std::pair{Reason::kTimeout, "timeout"},
                                     {Reason::kNak, "NAK"},
                                     {Reason::kRnr, "RNR"},
                                     {Reason::kImpliedNak, "implied NAK"},
                                     {Reason::kUnknown, "unknown reason"}}) {
    if (count(reason) != 0) causes += fmt::format("{}{} by {}", causes.empty() ? ": " : ", ", count(reason), name);
  }
  sent += causes;
  if (n.most_transmissions > 2) sent += fmt::format("; one of them was sent {} times", n.most_transmissions);
  line(sent);
  std::string more;
  const auto add = [&](std::uint64_t number, std::string_view one, std::string_view many) {
    if (number != 0) more += (more.empty() ? "    " : ", ") + counted(number, one, many);
  };
  add(n.responses, "response packet", "response packets");
  add(n.sequence_naks, "NAK (PSN sequence error)", "NAKs (PSN sequence error)");
  add(n.rnr_naks, "RNR NAK", "RNR NAKs");
  add(n.fatal_naks, "fatal NAK", "fatal NAKs");
  add(count(Reason::kAnswerAgain), "answer to a duplicate", "answers to duplicates");
  add(count(Reason::kCredits), "ACK with new credits only", "ACKs with new credits only");
  add(n.read_gaps, "gap in the answers", "gaps in the answers");
  add(count(Reason::kNetworkCopy), "copy made by the network", "copies made by the network");
  add(count(Reason::kReordered), "packet out of order", "packets out of order");
  add(n.missing, "PSN that the capture does not have", "PSNs that the capture does not have");
  add(n.lost - n.lost_to_faults, "packet lost between the two captures", "packets lost between the two captures");
  add(n.lost_to_faults, "packet lost to an injected fault", "packets lost to injected faults");
  add(n.damaged, "packet with a wrong ICRC", "packets with a wrong ICRC");
  if (!more.empty()) line(more);
  if (n.latency.count() == 1)
    line(fmt::format("    latency (first packet to last answer): {}", duration_text(n.latency.max())));
  if (n.latency.count() > 1) {
    line(fmt::format("    latency (first packet to last answer): least {}, median {}, 99 % {}, most {}",
                     duration_text(n.latency.min()), duration_text(n.latency.percentile(0.5)),
                     duration_text(n.latency.percentile(0.99)), duration_text(n.latency.max())));
  }
  const std::int64_t end = connection.service == proto::Service::kRc ? n.answered_ns : n.last_ns;
  if (n.acked_bytes != 0 && end > n.first_ns) {
    line(fmt::format("    goodput: {} bytes in {}, {}", n.acked_bytes, duration_text(end - n.first_ns),
                     rate_text(n.acked_bytes, end - n.first_ns)));
  }
  if (n.unanswered != 0 && connection.service == proto::Service::kRc) {
    line(fmt::format("    at the end of the capture {} not completed",
                     counted(n.unanswered, "message is", "messages are")));
  }
  troubles(n, story);
}

void Text::habits(char side, const Habits& habits) {
  for (const Habit& habit : habits.all()) {
    const std::string_view kind =
        habit.note.severity == Severity::kBreach ? "breaks a rule" : to_string(habit.note.severity);
    line(fmt::format("  {}: in {} of {}, first {}: {}", kind, counted(habit.packets, "packet"), side,
                     (*names_)(habit.first), habit.note.text));
  }
}

void Text::connection(const Connection& connection, const Story& story) {
  if (connection.part_of) {
    line(fmt::format("connection {} is the other direction of connection {}", connection.number, *connection.part_of));
    return line("");
  }
  line(fmt::format("connection {}, {}: A = {}, B = {}", connection.number, text_of(connection.service),
                   text_of(connection.left), text_of(connection.right)));
  std::string facts = fmt::format("  {} in {}", counted(connection.packets, "packet"),
                                  duration_text(connection.last_ns - connection.first_ns));
  if (connection.service != proto::Service::kUd) facts += "; " + text_of(connection.pairing);
  if (connection.agreement) {
    facts += fmt::format(" ({}, {}), service {}", (*names_)(connection.agreement->req),
                         (*names_)(connection.agreement->rep), hex(connection.agreement->service_id));
  }
  line(facts);
  if (connection.marked != 0 || connection.cnps != 0) {
    line(fmt::format("  congestion: {}, {}", counted(connection.marked, "packet marked", "packets marked"),
                     counted(connection.cnps, "CNP")));
  }
  for (const auto& [side, end] : {std::pair{'A', &connection.left}, {'B', &connection.right}}) {
    if (story.icrcs().is_never_right(end->gid))
      line(fmt::format("  the ICRC of {}'s packets is never right: see the last lines", side));
  }
  habits('A', connection.left_habits);
  habits('B', connection.right_habits);
  if (connection.service == proto::Service::kUd) {
    line(fmt::format("  {}, {} bytes{}", counted(connection.datagrams.count, "datagram"), connection.datagrams.bytes,
                     connection.datagrams.lost == 0 ? "" : fmt::format(", {} lost", connection.datagrams.lost)));
  } else {
    direction(connection, true, story);
    direction(connection, false, story);
  }
  line("");
}

void Text::management(const Story& story) {
  const auto& counts = story.manager().counts();
  if (counts.messages == 0) return;
  line(fmt::format("connection manager: {}, {}, {}, {}, {}", counted(counts.messages, "message"),
                   counted(counts.requests, "REQ"), counted(counts.replies, "REP"), counted(counts.rejects, "REJ"),
                   counted(counts.disconnects, "DREQ")));
  if (counts.again != 0) line(fmt::format("  {} sent again", counted(counts.again, "message")));
  const std::uint64_t between = counts.lost - counts.lost_to_faults;
  if (between != 0) line(fmt::format("  {} lost between the two captures", counted(between, "message")));
  if (counts.lost_to_faults != 0)
    line(fmt::format("  {} lost to injected faults", counted(counts.lost_to_faults, "message")));
  for (const Incident& incident : story.manager().incidents()) {
    line(fmt::format("      {:<6} {:<10} {}", (*names_)(incident.place), since_start(incident.time_ns, story),
                     incident.note.text));
  }
  if (counts.more_incidents != 0) {
    line(fmt::format("      and {} more: see them with --only problems", counts.more_incidents));
  }
  line("");
}

void Text::totals(const Story& story, const std::vector<FileFacts>& files) {
  const Totals& totals = story.totals();
  for (std::size_t i = 0; i < files.size(); ++i) {
    const FileFacts& file = files[i];
    std::string text = files.size() > 1 ? fmt::format("{}: {}", static_cast<char>('a' + i % 26), file.name) : file.name;
    text += ": " + counted(file.frames, "frame");
    if (file.not_roce != 0) text += fmt::format(", {} not RoCE", file.not_roce);
    if (file.passing != 0) text += fmt::format(", {} the same packets on another interface of the host", file.passing);
    if (file.tunneled != 0) text += fmt::format(", {} inside {}", file.tunneled, file.tunnel);
    if (file.broken != 0) text += fmt::format(", {} broken (first: {})", file.broken, file.first_broken);
    if (!file.unknown_link.empty()) text += ", can't read " + file.unknown_link;
    text += clock_text(file, i);
    text += file.damage.empty() ? "" : ". THE CAPTURE IS NOT WHOLE: " + file.damage;
    line(text);
  }
  if (totals.untold != 0)
    line(fmt::format("{} no connection", counted(totals.untold, "packet belongs to", "packets belong to")));
  const std::vector<NeverRight> never_right = story.icrcs().never_right();
  for (std::size_t i = 0; i < never_right.size() && i < kSendersListed; ++i) line(never_right_text(never_right[i]));
  if (never_right.size() > kSendersListed)
    line(fmt::format("and {} more such addresses", never_right.size() - kSendersListed));
  std::string icrc = "ICRC: right in " + counted(totals.icrc_right, "packet");
  if (totals.icrc_wrong != 0) icrc += fmt::format(", WRONG in {}", totals.icrc_wrong);
  if (totals.icrc_unknown != 0) icrc += fmt::format(", not captured in {}", totals.icrc_unknown);
  line(icrc);
}

void Text::end(const Story& story, const std::vector<FileFacts>& files) {
  if (options_.packets && options_.summary) line("");
  if (options_.summary) {
    for (const auto& each : story.connections()) {
      if (each->packets != 0 && filter_.takes(*each)) connection(*each, story);
    }
    management(story);
    totals(story, files);
  }
  flush();
}

}  // namespace uroce::explain
