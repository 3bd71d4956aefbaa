// SPDX-License-Identifier: Apache-2.0
#include "verbs/record/store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

#include "proto/base/directory.h"
#include "proto/base/fd.h"
#include "proto/quiet_signals.h"
#include "verbs/record/files.h"
#include "verbs/record/text_field.h"

namespace uroce::record {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDocument = ".json";

/// Takes "-123" off the end. False when there is none.
bool take_number(std::string_view& name) {
  const std::size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
  if (digits == 0 || digits == name.size() || name[name.size() - digits - 1] != '-') return false;
  name.remove_suffix(digits + 1);
  return true;
}

/// Whether it is called "uroce-PROGRAM" and then at least `numbers` times "-NUMBER", and ends in `suffix`. Other names
/// are those of somebody else's files.
bool is_ours(const fs::path& path, std::string_view suffix, int numbers) {
  const std::string file = path.filename().string();
  std::string_view name = file;
  if (!name.starts_with(kFilePrefix) || !name.ends_with(suffix)) return false;
  name.remove_suffix(suffix.size());
  for (; numbers > 0; --numbers) {
    if (!take_number(name)) return false;
  }
  return name.size() > kFilePrefix.size();
}

bool is_ring_name(const fs::path& path) { return is_ours(path, kRingSuffix, 2); }  // PID and NIC.
bool is_document_name(const fs::path& path) { return is_ours(path, kDocument, 3); }

/// Whether it begins as our documents do.
bool is_document(const fs::path& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  std::array<char, kDocumentBegin.size()> begin{};
  return fd && ::read(fd.get(), begin.data(), begin.size()) == static_cast<ssize_t>(begin.size()) &&
         std::string_view(begin.data(), begin.size()) == kDocumentBegin;
}

bool write_all(int fd, const void* data, std::size_t size) {
  const auto* at = static_cast<const std::uint8_t*>(data);
  while (size != 0) {
    const ssize_t put = ::write(fd, at, size);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

/// Files of ours, the oldest first.
std::vector<fs::path> by_age(const std::string& directory, bool (*is_wanted)(const fs::path&)) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (const auto& entry : entries_of(directory, error)) {
    if (is_wanted(entry.path())) found.emplace_back(entry.last_write_time(error), entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  paths.reserve(found.size());
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

/// A ring whose process has gone, locked. The error is why there is none; "" where that is no news: its process lives.
Result<Fd, std::string> open_left_ring(const fs::path& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat facts {};
  if (!fd && errno == ENOENT) return Err{std::string()};  // Somebody else has saved it meanwhile.
  if (!fd && errno == ELOOP) return Err{std::string("it is a symbolic link, not the file of a NIC")};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return Err{std::string(std::strerror(errno))};
  if (!S_ISREG(facts.st_mode)) return Err{std::string("it is no regular file")};  // It may be anybody's.
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
  return Err{std::string(errno == EWOULDBLOCK ? "" : std::strerror(errno))};
}

/// Whether a process has begun to write there. Until then it is just opening its NIC.
bool is_begun(int fd) {
  std::uint64_t magic = 0;
  return ::pread(fd, &magic, sizeof magic, offsetof(Ring, magic)) > 0 && magic != 0;
}

/// When the process was last seen alive, since 1970: what it has left is not as new as the moment that finds it.
timespec last_seen(const Recording& recording, int fd) {
  struct stat facts {};
  const timespec unknown{.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  if (::fstat(fd, &facts) != 0) return unknown;
  Instant last{};
  for (const auto& each : recording.events) last = std::max(last, each.event.when);
  for (const auto& each : recording.packets) last = std::max(last, each.when);
  std::int64_t since_1970 = 0;
  const std::int64_t when = last.time_since_epoch().count();
  // What is written through a mapping need not change the time of the file.
  if (when == 0 || __builtin_add_overflow(when, recording.wall_offset_ns, &since_1970) || since_1970 < 0) {
    return facts.st_mtim;
  }
  constexpr std::int64_t kSecond = 1'000'000'000;
  const timespec told{.tv_sec = since_1970 / kSecond, .tv_nsec = since_1970 % kSecond};
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return told.tv_sec > now.tv_sec ? facts.st_mtim : told;  // It was damaged, or the clock was set back.
}

/// Root looks into directories of others. By descriptor: who owns the directory may put another file under the name.
void give_to_owner_of(int like, int file) {
  struct stat facts {};
  if (like < 0 || ::geteuid() != 0 || ::fstat(like, &facts) != 0) return;
  [[maybe_unused]] const int error = ::fchown(file, facts.st_uid, facts.st_gid);  // Else it is root's.
}

/// Makes a recording of a ring that was left. What went wrong, or "".
std::string save_left_ring(const fs::path& path, const std::string& directory) {
  const auto fd = open_left_ring(path);
  if (!fd.ok()) return fd.error();
  const auto recording = read_ring_file(fd->get());
  if (!recording) return is_begun(fd->get()) ? "damaged, or of another version of uroce" : "";
  const auto saved = save(*recording, "the process ended without closing its NIC: killed, or crashed", directory,
                          Keep::kNewest, fd->get());
  if (!saved.ok()) return saved.error();
  const timespec last = last_seen(*recording, fd->get());
  ::utimensat(AT_FDCWD, (*saved + kDocument).c_str(), std::array{last, last}.data(), AT_SYMLINK_NOFOLLOW);
  std::error_code error;
  fs::remove(path, error);
  return "";
}

bool is_owned(const fs::path& path, uid_t user) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0 && facts.st_uid == user;
}

/// Of each user only so many are kept: the recordings of some take no room from others. `newest`: the one just written.
void remove_oldest(const std::string& directory, int newest) {
  std::error_code error;
  std::vector<fs::path> found = by_age(directory, is_document_name);
  struct stat facts {};
  if (found.size() <= kRecordingsKept || ::fstat(newest, &facts) != 0) return;
  std::erase_if(found, [&](const fs::path& path) { return !is_owned(path, facts.st_uid) || !is_document(path); });
  for (std::size_t left = found.size(); left > kRecordingsKept; --left) {
    fs::path& path = found[found.size() - left];
    fs::remove(path, error);
    fs::remove(path.replace_extension(".pcapng"), error);
  }
}

}  // namespace

bool is_ring(const std::string& path) { return is_ring_name(path); }

std::string stem_of(const std::string& program, std::uint32_t pid, std::uint32_t nic) {
  std::array<char, sizeof(Ring::program)> cut{};  // As in the ring: a file's name has 255 bytes at most.
  set_text(cut, program);
  std::string safe = program.empty() ? "program" : text_of(cut);
  std::replace_if(
      safe.begin(), safe.end(), [](char c) { return c == '/' || static_cast<unsigned char>(c) < ' ' || c == 0x7F; },
      '_');
  return std::string(kFilePrefix) + safe + '-' + std::to_string(pid) + '-' + std::to_string(nic);
}

std::optional<Recording> read_ring_file(int fd) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0 || facts.st_size != static_cast<off_t>(sizeof(Ring))) return std::nullopt;
  const auto ring = std::make_unique<Ring>();
  if (::pread(fd, ring.get(), sizeof(Ring), 0) != static_cast<ssize_t>(sizeof(Ring))) return std::nullopt;
  std::atomic_thread_fence(std::memory_order_acquire);  // What is overwritten meanwhile has been counted.
  std::array<std::uint64_t, 2> counts{};
  static_assert(offsetof(Ring, packets) == offsetof(Ring, events) + sizeof(std::uint64_t));
  if (::pread(fd, counts.data(), sizeof counts, offsetof(Ring, events)) != sizeof counts) return std::nullopt;
  if (ring->magic != Ring::kMagic) return std::nullopt;
  return read_ring(*ring, counts[0] + 1, counts[1] + 1);
}

Result<std::string, std::string> save(const Recording& recording, const std::string& why, const std::string& directory,
                                      Keep keep, int like) {
  const proto::QuietSignals quiet;
  const auto failed = [](const std::string& path) {
    return Err{"can't write the recording " + path + ": " + std::strerror(errno)};
  };
  // Takes most of the memory: before there is half of a recording.
  const std::string text = json_of(recording, why);
  const std::vector<std::uint8_t> bytes = recording.keeps_packets ? pcapng_of(recording) : std::vector<std::uint8_t>();
  const std::string stem = directory + '/' + stem_of(recording.program, recording.pid, recording.nic) + '-';
  Fd document;
  std::string path;
  for (std::uint32_t nth = 1; !document; ++nth) {
    path = stem + std::to_string(nth);
    document = Fd(::open((path + kDocument).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (!document && errno != EEXIST) return failed(path + kDocument);
  }
  const std::string name = path + ".pcapng";
  const auto taken_back = [&](const std::string& file) {
    auto error = failed(file);  // Half of it is worth less than what it would push out.
    ::unlink((path + kDocument).c_str());
    ::unlink(name.c_str());
    return error;
  };
  give_to_owner_of(like, document.get());
  if (!write_all(document.get(), text.data(), text.size())) return taken_back(path + kDocument);
  if (recording.keeps_packets) {
    ::unlink(name.c_str());  // Left without its document; or somebody else's, to be written through.
    const Fd capture(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (capture) give_to_owner_of(like, capture.get());
    if (!capture || !write_all(capture.get(), bytes.data(), bytes.size())) return taken_back(name);
  }
  if (keep == Keep::kNewest) remove_oldest(directory, document.get());
  return path;
}

std::vector<std::string> save_left_rings(const std::string& directory) {
  std::vector<std::string> failed;
  std::error_code error;
  for (const auto& entry : entries_of(directory, error)) {
    if (!is_ring_name(entry.path())) continue;
    const std::string why = save_left_ring(entry.path(), directory);
    if (!why.empty()) failed.push_back(entry.path().string() + ": " + why);
  }
  return failed;
}

void remove_old_rings(const std::string& directory) {
  std::error_code error;
  const std::vector<fs::path> found = by_age(directory, is_ring_name);
  std::size_t left = 0;
  for (auto path = found.rbegin(); path != found.rend(); ++path) {
    const auto fd = open_left_ring(*path);
    if (fd.ok() && ++left > kRingsLeft) fs::remove(*path, error);
  }
}

}  // namespace uroce::record
