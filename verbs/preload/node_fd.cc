// SPDX-License-Identifier: Apache-2.0
#include "verbs/preload/node_fd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>

#include "engine/os/fd.h"
#include "proto/base/no_cancellation.h"
#include "proto/quiet_signals.h"
#include "verbs/preload/channel_fd.h"
#include "verbs/preload/char_device.h"
#include "verbs/preload/next.h"
#include "verbs/preload/older_libc.h"
#include "verbs/view/sysfs.h"

namespace uroce::preload {
namespace {

constexpr std::string_view kName = "uroce:";
constexpr std::string_view kLinkBegin = "/memfd:uroce:", kLinkEnd = " (deleted)";

/// Not /proc/self: that is the main thread, which may have ended, and has no descriptors then.
std::string own_link(int descriptor) { return "/proc/thread-self/fd/" + std::to_string(descriptor); }

bool write_all(int descriptor, const std::string& text) {
  const proto::QuietSignals quiet;  // RLIMIT_FSIZE counts for a memfd as well.
  return ::pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
         ::ftruncate(descriptor, static_cast<off_t>(text.size())) == 0;
}

int open_memory(const std::string& path, const std::string& contents, int flags) {
  const unsigned int close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
  engine::Fd made(::memfd_create((std::string(kName) + path).c_str(), close_on_exec));
  if (!made || !write_all(made.get(), contents)) return -1;
  // Again, for reading only: what programs get can't be written to.
  const int again =
      UROCE_NEXT(open)(own_link(made.get()).c_str(), O_RDONLY | (flags & (O_PATH | O_CLOEXEC | O_NONBLOCK)));
  return again >= 0 ? again : made.release();  // Without /proc.
}

int refuse_open(int error) {
  errno = error;
  return -1;
}

}  // namespace

int open_node(const Where& where, int flags) {
  using Kind = view::Node::Kind;
  const Kind kind = where.node->kind;
  if ((flags & O_PATH) != 0) {  // It says where something is, links too; the kernel looks at no flag but these.
    if (kind != Kind::kDirectory && (flags & O_DIRECTORY) != 0) return refuse_open(ENOTDIR);
    return open_memory(where.path, "", flags & (O_PATH | O_CLOEXEC));
  }
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC) != 0;
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return refuse_open(EEXIST);
  if (kind == Kind::kLink) return refuse_open((flags & O_DIRECTORY) != 0 ? ENOTDIR : ELOOP);
  if (kind == Kind::kDirectory && (writes || (flags & O_CREAT) != 0)) return refuse_open(EISDIR);
  if (kind != Kind::kDirectory && (flags & O_DIRECTORY) != 0) return refuse_open(ENOTDIR);
  if (kind == Kind::kCharDevice) return open_char_device(where.path, flags);
  if (writes) return refuse_open(EACCES);
  return open_memory(where.path, kind == Kind::kFile ? where.node->contents() : "", flags);
}

std::string link_of_descriptor(int descriptor) {
  std::array<char, PATH_MAX> link{};
  const ssize_t size = UROCE_NEXT(readlink)(own_link(descriptor).c_str(), link.data(), link.size());
  return size <= 0 ? "" : std::string(link.data(), static_cast<std::size_t>(size));
}

std::optional<std::string> path_of_descriptor(int descriptor) {
  if (channel_of(descriptor)) return std::string(view::kRdmaCmDevice);
  struct stat status {};
  // Files that have a name are none of ours. That spares most descriptors the longer question. The next fstat() is not
  // asked: that of another preloaded library may come back to ours.
  if (kernel_fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 0) return std::nullopt;
  std::string_view link;
  const std::string text = link_of_descriptor(descriptor);
  link = text;
  if (!link.starts_with(kLinkBegin) || !link.ends_with(kLinkEnd)) return std::nullopt;
  link.remove_prefix(kLinkBegin.size());
  link.remove_suffix(kLinkEnd.size());
  return std::string(link);
}

void refresh(int descriptor) {
  const int error = errno;
  if (const auto path = path_of_descriptor(descriptor)) {
    const NoCancellation whole;
    const view::Node* const node = tree().find(*path);
    if (node != nullptr && node->kind == view::Node::Kind::kFile) {
      const engine::Fd writable(UROCE_NEXT(open)(own_link(descriptor).c_str(), O_WRONLY | O_CLOEXEC));
      if (writable) write_all(writable.get(), node->contents());
    }
  }
  errno = error;
}

}  // namespace uroce::preload
