// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/reasons.h"

#include <charconv>
#include <string_view>
#include <utility>

namespace uroce::record {
namespace {

using nic::TraceKind;

constexpr bool makes_go_back(TraceKind kind) {
  return kind == TraceKind::kAckTimeout || kind == TraceKind::kSequenceNakIn || kind == TraceKind::kImpliedNak ||
         kind == TraceKind::kRnrNakIn;
}

void append(std::string& comment, const std::string& text) {
  comment += comment.empty() ? std::string(kNicSays) : "; ";
  comment += text;
}

}  // namespace

std::string words(const nic::TraceEvent& event) {
  // PSNs, QPNs and keys as people write them.
  std::string text = nic::to_string(event);
  for (const std::string_view name : {"qpn=", "psn=", "qp=", "rkey=", "lkey=", "qkey="}) {
    const auto at = text.find(name);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + name.size();
    const std::size_t size =
        text.find(' ', begin) == std::string::npos ? text.size() - begin : text.find(' ', begin) - begin;
    char digits[16] = {};
    const auto end = std::to_chars(digits, digits + sizeof digits, std::stoull(text.substr(begin, size)), 16).ptr;
    text.replace(begin, size, "0x" + std::string(digits, end));
  }
  return text;
}

void SendReasons::on_event(const nic::TraceEvent& event, Phase phase) {
  if (makes_go_back(event.kind)) {
    constexpr std::size_t kMost = 4096;
    if (went_back_.size() < kMost || went_back_.contains(event.qpn)) went_back_[event.qpn] = event;
    return;
  }
  if (phase != Phase::kSending) return;
  if (event.kind != TraceKind::kRetransmitted) {
    append(next_, words(event));
    return;
  }
  const auto why = went_back_.find(event.qpn);
  append(next_, why == went_back_.end() ? "sent again" : "sent again because of " + words(why->second));
}

std::string SendReasons::take() { return std::exchange(next_, {}); }

std::vector<std::string> comments(const Recording& recording) {
  std::vector<std::string> all(recording.packets.size());
  SendReasons reasons;
  std::size_t at = 0;
  const auto pass = [&](std::uint32_t number) {
    // The numbers count over.
    for (; at < recording.packets.size() && static_cast<std::int32_t>(number - recording.packets[at].number) > 0;
         ++at) {
      if (recording.packets[at].sent) all[at] = reasons.take();
    }
  };
  for (const Recording::Event& event : recording.events) {
    pass(event.number);
    reasons.on_event(event.event, event.phase);
    const bool before =
        !recording.packets.empty() && static_cast<std::int32_t>(event.number - recording.packets.front().number) < 0;
    if (before) static_cast<void>(reasons.take());  // About a packet that is not kept any more.
    if (event.phase == Phase::kReceiving && at > 0 && !recording.packets[at - 1].sent) {
      append(all[at - 1], words(event.event));
    }
  }
  if (at < recording.packets.size() && recording.packets[at].sent) all[at] = reasons.take();
  return all;
}

}  // namespace uroce::record
