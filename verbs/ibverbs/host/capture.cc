// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/capture.h"

#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

namespace uroce::ibv {
namespace {

constexpr std::string_view kGoOn = ">>";

/// What a reader of a shared capture knows our packets by.
std::string capture_interface(std::uint32_t index) {
  return "uroce" + std::to_string(index) + ' ' + program_invocation_short_name + '[' + std::to_string(getpid()) + ']';
}

}  // namespace

std::string capture_complaint(const std::string& value) {
  if (value == kGoOn) return "behind >> belongs the name of a file, as in >>all.pcapng";
  if (value != "-" && value != ">>-") return "";
  return "- is no file, and stdout is the program's own; name a file, or a FIFO (mkfifo) from which another program "
         "reads";
}

Result<proto::PcapWriter, std::string> open_capture(const std::string& value, std::uint32_t index) {
  if (std::string wrong = capture_complaint(value); !wrong.empty()) return Err{std::move(wrong)};
  static std::mutex mutex;
  static std::set<std::string> begun;  // A forked child inherits it: the file is its parent's, and its own.
  const bool goes_on = value.starts_with(kGoOn);
  const std::string file = goes_on ? value.substr(kGoOn.size()) : value;
  const std::scoped_lock lock(mutex);
  auto writer = goes_on || begun.contains(file) ? proto::PcapWriter::resume(file, capture_interface(index))
                                                : proto::PcapWriter::create(file, capture_interface(index));
  if (writer.ok()) begun.insert(file);
  return writer;
}

}  // namespace uroce::ibv
