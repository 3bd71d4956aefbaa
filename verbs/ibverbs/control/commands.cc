// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/control/commands.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "engine/faults/parse.h"
#include "engine/faults/spec.h"
#include "proto/address.h"
#include "proto/base/number.h"
#include "verbs/ibverbs/hooks/call_faults.h"
#include "verbs/ibverbs/hooks/cm_faults.h"
#include "verbs/ibverbs/hooks/faults_wanted.h"
#include "verbs/ibverbs/host/adapter.h"
#include "verbs/ibverbs/host/device.h"
#include "verbs/ibverbs/host/environment.h"
#include "verbs/view/port_counters.h"

namespace uroce::ibv {
namespace {

using engine::faults::FaultSpec;

/// Longer ones would not be read to their ends either.
constexpr std::size_t kLongest = 4096;
constexpr std::size_t kMostLost = 1'000'000'000;

using Words = std::vector<std::string_view>;
/// Lines, or what is wrong.
using Answer = Result<std::string, std::string>;

/// The NICs that a command is for.
class Nics {
 public:
  /// All; with `only`, that one.
  explicit Nics(std::optional<std::size_t> only) : only_(only) {
    DeviceTable& table = device_table();
    const std::scoped_lock lock(table.mutex);
    devices_ = table.devices;
  }
  bool is_one() const { return only_.has_value(); }

  /// Calls `use` for each that is open. How many were.
  template <class Use>
  std::size_t for_each_open(const Use& use) const {
    std::size_t open = 0;
    for (Device* device : devices_) {
      if (only_ && device->index != *only_) continue;
      open += device->while_open([&](Adapter& adapter) { use(adapter); }) ? 1u : 0u;
    }
    return open;
  }
  std::size_t count_open() const {
    return for_each_open([](const Adapter&) {});
  }
  std::string none_open() const {
    return only_ ? "NIC " + std::to_string(*only_) + " is not open" : "the process has no NIC open";
  }

 private:
  std::optional<std::size_t> only_;
  std::vector<Device*> devices_;
};

std::string name_of(const Adapter& adapter) { return "uroce" + std::to_string(adapter.index()); }

Result<FaultSpec, std::string> parse_list(std::string_view text) {
  auto spec = engine::faults::parse_faults(text);
  if (!spec.ok()) return spec;
  if (std::string wrong = check_calls(*spec); !wrong.empty()) return Err{std::move(wrong)};
  return spec;
}

/// How many items are faults of the process, not of a NIC.
std::size_t of_process(const FaultSpec& spec) { return spec.calls.size() + spec.connections.size(); }

constexpr const char* kNotOfNic = "call= and cm. are faults of the process: leave out `nic`";

Answer replace(const Nics& nics, const Words& words) {
  if (words.size() != 1) return Err{std::string("expected: faults SPEC, or faults none")};
  const std::string text(words[0] == "none" ? "" : words[0]);
  const auto spec = parse_list(text);
  if (!spec.ok()) return Err{spec.error()};
  if (nics.is_one() && of_process(*spec) != 0) return Err{std::string(kNotOfNic)};
  if (!nics.is_one()) want_faults(text, *spec);
  const std::size_t changed = nics.for_each_open([&](Adapter& adapter) { adapter.replace_faults(*spec); });
  if (nics.is_one() && changed == 0) return Err{nics.none_open()};
  return std::string();
}

Answer add(const Nics& nics, std::string_view text) {
  const auto spec = parse_list(text);
  if (!spec.ok()) return Err{spec.error()};
  if (nics.is_one() && of_process(*spec) != 0) return Err{std::string(kNotOfNic)};
  const std::vector<std::string_view> items = engine::faults::split(text, ',');
  for (const std::string_view item : items) {
    if (engine::faults::after(item, "seed="))
      return Err{std::string("all faults have one seed, so none can be added; give it with `faults`")};
  }
  const bool concerns_nics = items.size() != of_process(*spec);
  if (concerns_nics && nics.for_each_open([&](Adapter& adapter) { adapter.add_faults(*spec); }) == 0)
    return Err{nics.none_open()};
  add_call_faults(*spec);
  add_cm_faults(*spec);
  return std::string();
}

Answer add_items(const Nics& nics, const Words& words) {
  if (words.size() != 1) return Err{std::string("expected: add SPEC")};
  return add(nics, words[0]);
}

/// lose [rx] [N] [CONDITIONS]
Answer lose(const Nics& nics, Words words) {
  std::string item = "drop=";
  const auto take_rx = [&] {  // People put it on either side of the number.
    if (words.empty() || words[0] != "rx") return;
    item = "rx.drop=";
    words.erase(words.begin());
  };
  take_rx();
  std::uint64_t count = 1;
  if (const auto number = words.empty() ? std::nullopt : parse_number<std::uint64_t>(words[0])) {
    count = *number;
    words.erase(words.begin());
  }
  take_rx();
  if (count == 0 || count > kMostLost) return Err{std::string("1 to 1000000000 packets can be lost")};
  if (words.size() > 1 || (!words.empty() && words[0].find_first_of(",#") != std::string_view::npos))
    return Err{std::string("expected: lose [rx] [N] [CONDITIONS], such as lose 2 op:ack@qp:1st")};
  if (!words.empty()) item += words[0];
  return add(nics, item + "#1.." + std::to_string(count));
}

Answer blackout(const Nics& nics, const Words& words) {
  const auto time = words.size() == 1 ? engine::faults::parse_duration(words[0]) : std::nullopt;
  if (!time || time->count() == 0)
    return Err{std::string("expected: blackout TIME, of 24h at most, such as blackout 200ms or blackout 1h")};
  return add(nics, "blackout=0s.." + std::string(words[0]));
}

Answer break_qp(const Nics& nics, const Words& words) {
  const auto qp = words.size() == 1 ? engine::faults::parse_qp(words[0]) : std::nullopt;
  if (!qp) return Err{std::string("expected: break QP, by number or place: break 0x11, break 1st")};
  if (nics.count_open() > 1)
    return Err{std::string("several NICs are open, and each has QPs of its own: nic 0 break ...")};
  bool broken = false;
  if (nics.for_each_open([&](Adapter& adapter) { broken = adapter.break_qp(*qp); }) == 0) return Err{nics.none_open()};
  if (!broken) return Err{"there is no QP " + std::string(words[0])};
  return std::string();
}

/// The counters of one NIC, or of the process, as lines. Only the one called `wanted`, unless that is empty.
class CounterLines {
 public:
  explicit CounterLines(std::string_view wanted) : wanted_(wanted) {}
  void begin(std::string of) { of_ = std::move(of); }
  void add(std::string_view name, std::uint64_t value) {
    if (!wanted_.empty() && name != wanted_) return;
    lines_ += of_ + ' ' + std::string(name) + ' ' + std::to_string(value) + '\n';
  }
  std::string take() { return std::move(lines_); }

 private:
  std::string_view wanted_;
  std::string of_, lines_;
};

void add_counters(CounterLines& lines, Adapter& adapter) {
  lines.begin(name_of(adapter));
  view::NicView view;
  const CounterSet counters = adapter.counters();
  view.counters = counters.nic;
  view.wire = counters.wire;
  view.link_downed = counters.link_downed;
  for (const view::CounterRow& row : view::hw_counters()) lines.add(row.name, row.value(view));
  const engine::faults::FaultCounters faults = adapter.facts().faults;
  for (std::size_t i = 0; i < faults.packets.size(); ++i) {
    const std::string kind = to_string(static_cast<engine::faults::Kind>(i));
    lines.add("injected_" + kind, faults.packets.at(i));
  }
  lines.add("injected_blackout", faults.blackout);
  lines.add("injected_overfull", faults.overfull);
  lines.add("injected_rnr", faults.rnr);
  lines.add("injected_wr", faults.wrs);
  lines.add("injected_event", faults.events);
}

Answer counters(const Nics& nics, const Words& words) {
  if (words.size() > 1) return Err{std::string("expected: counters, or counters NAME")};
  CounterLines lines(words.empty() ? "" : words[0]);
  const std::size_t open = nics.for_each_open([&](Adapter& adapter) { add_counters(lines, adapter); });
  if (open == 0 && nics.is_one()) return Err{nics.none_open()};
  if (!nics.is_one()) {
    lines.begin("process");
    lines.add("injected_call", call_faults_injected());
    lines.add("injected_cm", cm_faults().injected());
  }
  std::string text = lines.take();
  if (!text.empty()) return text;
  return Err{open == 0 ? nics.none_open() : "there is no counter " + std::string(words[0]) + ": see `counters`"};
}

Answer list(const Nics& nics, const Words& words) {
  if (!words.empty()) return Err{std::string("expected: list")};
  std::string lines;
  const std::size_t open = nics.for_each_open([&](Adapter& adapter) {
    lines += name_of(adapter);
    for (const std::string& address : adapter.facts().addresses) lines += ' ' + address;
    lines += '\n';
  });
  if (open == 0 && nics.is_one()) return Err{nics.none_open()};
  return lines;
}

Answer help(const Nics& /*nics*/, const Words& /*words*/) { return command_help(); }

struct Command {
  std::string_view name, usage, meaning;
  Answer (*execute)(const Nics& nics, const Words& words);
};
constexpr Command kCommands[] = {
    {"faults", "faults SPEC|none", "these faults take the place of all others", replace},
    {"add", "add SPEC", "adds these faults to the others", add_items},
    {"lose", "lose [rx] [N] [CONDITIONS]", "loses the next packet, or the next N, that we send (rx: receive)",
     [](const Nics& nics, const Words& words) { return lose(nics, words); }},
    {"blackout", "blackout TIME", "no packet passes for this time", blackout},
    {"break", "break QP", "the QP goes to ERR, with IBV_EVENT_QP_FATAL", break_qp},
    {"counters", "counters [NAME]", "what was counted, injected faults too", counters},
    {"list", "list", "the NICs that the process has open, and their addresses", list},
    {"help", "help", "this list", help},
};

/// Words between spaces; the last line may end.
Result<Words, std::string> words_of(std::string_view command) {
  if (command.size() > kLongest) return Err{std::string("a command has 4096 bytes at most")};
  if (command.ends_with('\n')) command.remove_suffix(1);
  const auto is_plain = [](char c) { return c >= ' ' && c <= '~'; };
  if (!std::all_of(command.begin(), command.end(), is_plain))
    return Err{std::string("a command is one line of printable ASCII")};
  Words words = engine::faults::split(command, ' ');
  std::erase(words, std::string_view());
  return words;
}

Answer execute(std::string_view text) {
  auto parsed = words_of(text);
  if (!parsed.ok()) return Err{parsed.error()};
  Words words = std::move(*parsed);
  std::optional<std::size_t> only;
  if (!words.empty() && words[0] == "nic") {
    const auto number = words.size() > 1 ? parse_number<std::uint64_t>(words[1]) : std::nullopt;
    if (!number || *number >= kMaxDevices) return Err{std::string("expected: nic N COMMAND, with N below 64")};
    only = *number;
    words.erase(words.begin(), words.begin() + 2);
  }
  if (words.empty()) return Err{std::string("which command? Try help")};
  const auto* const command = std::find_if(std::begin(kCommands), std::end(kCommands),
                                           [&](const Command& row) { return row.name == words[0]; });
  if (command == std::end(kCommands)) return Err{"there is no command " + std::string(words[0]) + "; try help"};
  words.erase(words.begin());
  return command->execute(Nics(only), words);
}

}  // namespace

std::string command_help() {
  std::string text;
  for (const Command& command : kCommands) {
    std::string usage(command.usage);
    usage.resize(std::max<std::size_t>(usage.size() + 2, 30), ' ');
    text += usage + std::string(command.meaning) + '\n';
  }
  return text + "nic N ... in front of a command: only that NIC\n";
}

std::string execute_command(std::string_view command) {
  const Answer answer = execute(command);
  return answer.ok() ? "ok\n" + *answer : "error: " + answer.error() + '\n';
}

}  // namespace uroce::ibv
