// SPDX-License-Identifier: Apache-2.0
#include "tools/explain/explain.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <utility>

#include "proto/address.h"
#include "proto/base/number.h"
#include "proto/base/printable.h"
#include "tools/explain/packets/both_ends.h"
#include "tools/explain/recordings.h"
#include "tools/explain/words/html.h"
#include "tools/explain/words/json.h"
#include "tools/explain/words/perfetto.h"
#include "tools/explain/words/text.h"
#include "tools/output/print.h"

namespace uroce::explain {
namespace {

int complain(const std::string& text) {
  tools::print_to(stderr, "uroce explain: {}\n", proto::printable(text));
  return 2;
}

std::optional<std::uint32_t> parse_qpn(const std::string& text) {
  const auto qpn = parse_decimal_or_hex<std::uint32_t>(text);
  return qpn > 0xFFFFFFu ? std::nullopt : qpn;
}

/// Wrong options, in words.
std::optional<std::string> read_filter(const Options& options, Filter& filter) {
  if (!options.qp.empty()) {
    filter.qpn = parse_qpn(options.qp);
    if (!filter.qpn) return "'" + options.qp + "' is no QP number: give 17 or 0x11";
  }
  if (!options.peer.empty()) {
    filter.peer = proto::parse_gid(options.peer);
    if (!filter.peer) return "'" + options.peer + "' is no IPv4 or IPv6 address";
  }
  if (!options.only.empty() && options.only != "problems") {
    return "'" + options.only + "' can't be chosen: --only takes problems";
  }
  filter.only_problems = options.only == "problems";
  return std::nullopt;
}

bool are_one_file(const std::string& a, const std::string& b) {
  std::error_code none;
  return !a.empty() && (a == b || std::filesystem::equivalent(a, b, none));
}

/// Whether files are in each other's way: in words.
std::optional<std::string> check_files(const Options& options, const std::vector<std::string>& captures) {
  if (are_one_file(options.html, options.perfetto)) {
    return options.html + " can't have both outputs; give --html and --perfetto a file each";
  }
  for (auto capture = captures.begin(); capture != captures.end(); ++capture) {
    const auto is_capture = [&](const std::string& file) { return are_one_file(file, *capture); };
    for (const std::string& out : {options.html, options.perfetto}) {
      if (is_capture(out)) return out + " is one of the captures to read; write to another file";
    }
    if (std::find_if(capture + 1, captures.end(), is_capture) != captures.end()) {
      return *capture + " is given twice; give each capture once, those of both ends of a path together";
    }
  }
  return std::nullopt;
}

/// Whether a QP or a peer was named that no connection has.
bool takes_nothing(const Filter& filter, const Story& story) {
  if (!filter.qpn && !filter.peer) return false;
  return std::ranges::none_of(story.connections(),
                              [&](const auto& each) { return each->packets != 0 && filter.takes(*each); });
}

/// A line on the terminal that tells how far the work is.
class Progress {
 public:
  /// `printing`: standard output gets lines while the work goes on, between which the terminal has no place for ours.
  explicit Progress(bool printing)
      : terminal_(::isatty(STDERR_FILENO) == 1 && !(printing && ::isatty(STDOUT_FILENO) == 1)) {}
  void show(const BothEnds& captures) {
    if (!terminal_ || ++calls_ % kEvery != 0) return;
    const auto [done, all] = captures.progress();
    if (all == 0) {
      tools::print_to(stderr, "\r{} packets", captures.frames());
    } else {
      tools::print_to(stderr, "\r{:3} % of {} MB, {} packets", done * 100 / all, all / 1'000'000, captures.frames());
    }
    shown_ = true;
  }
  ~Progress() {
    if (shown_) tools::print_to(stderr, "\r{:60}\r", "");
  }

 private:
  static constexpr std::uint64_t kEvery = 1 << 16;
  bool terminal_;
  bool shown_ = false;
  std::uint64_t calls_ = 0;
};

void on_interrupt(int) { Input::stop(); }

/// The first ^C ends the capture and brings the summary, the second one the process.
void stop_by_interrupt() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
}

using Outputs = std::vector<std::unique_ptr<Output>>;

/// What was asked for: the one on standard output first.
Outputs make_outputs(const Options& options, const Names& names, const Filter& filter) {
  const bool packets = options.packets || filter.only_problems || options.follow;
  Outputs outputs;
  if (options.json) {
    outputs.push_back(std::make_unique<Json>(stdout, names, filter, packets));
  } else {
    outputs.push_back(std::make_unique<Text>(stdout, names, filter, Text::Options{.packets = packets}));
  }
  if (!options.html.empty()) outputs.push_back(std::make_unique<Html>(options.html, names, filter));
  if (!options.perfetto.empty()) outputs.push_back(std::make_unique<Perfetto>(options.perfetto, names, filter));
  return outputs;
}

/// The first error of any; empty when there is none.
std::string error_of(const Outputs& outputs) {
  for (const auto& output : outputs) {
    if (std::string error = output->error(); !error.empty()) return error;
  }
  return {};
}

/// Tells packet by packet. False: standard output takes no more.
bool tell(BothEnds& captures, Story& story, const Filter& filter, const Outputs& outputs, bool follow) {
  const bool wants_packets = std::ranges::any_of(outputs, [](const auto& each) { return each->wants_packets(); });
  Progress progress(outputs.front()->wants_packets());
  bool warned = false;
  while (const auto packet = captures.next()) {
    if (captures.is_doubled() && !std::exchange(warned, true)) {
      for (const auto& output : outputs) {
        output->warn(
            "packets are in this capture twice, without their directions: it is read as the view of both ends, and "
            "the earlier sighting is taken for the sender's. A .pcapng tells the ends apart.");
      }
    }
    const Told told = story.tell(*packet);
    progress.show(captures);
    if (!wants_packets || !filter.takes(story.connection(told.connection), *packet)) continue;
    for (const Finished& message : told.finished) {
      for (const auto& output : outputs) output->finished(message, told.connection, story);
    }
    if (filter.only_problems && !told.is_problem()) continue;
    for (const auto& output : outputs) output->packet(*packet, told, story);
    if (follow) outputs.front()->flush();
    if (std::ferror(stdout) != 0) return false;
  }
  return true;
}

}  // namespace

int explain(const Options& options) {
  Filter filter;
  if (const auto wrong = read_filter(options, filter)) return complain(*wrong);
  const auto input = input_of(options.files);
  if (!input.ok()) return complain(input.error());
  for (const std::string& file : input->skipped) {
    complain("skipped: " + file);
  }
  if (const auto wrong = check_files(options, input->captures)) return complain(*wrong);
  BothEnds captures(options.follow);
  for (const std::string& file : input->captures) {
    if (const auto wrong = captures.open(file, options.follow, input->cut.contains(file))) return complain(*wrong);
  }
  if (options.follow) stop_by_interrupt();
  const Names names(input->captures.size() > 1);
  std::signal(SIGXFSZ, SIG_IGN);  // A file that reached `ulimit -f` is an error to tell, as a full disk is.
  const Outputs outputs = make_outputs(options, names, filter);
  if (const std::string error = error_of(outputs); !error.empty()) return complain(error);
  for (const auto& output : outputs) output->begin(input->verdicts);
  Story story(names);
  if (!tell(captures, story, filter, outputs, options.follow)) return 1;  // Nobody can read it; main() says so.
  story.finish();
  const std::vector<FileFacts> facts = captures.facts();
  for (const auto& output : outputs) output->end(story, facts);
  if (const std::string error = error_of(outputs); !error.empty()) return complain(error);
  bool whole = story.totals().packets != 0 || !input->verdicts.empty();
  for (const FileFacts& file : facts) whole = whole && file.damage.empty();
  if (story.totals().packets == 0 && input->verdicts.empty()) {
    complain("there is no packet of RoCE in it");
  } else if (takes_nothing(filter, story)) {
    complain("no connection in it has that --qp and --peer; without these options all are told");
  }
  return whole ? 0 : 1;
}

}  // namespace uroce::explain
