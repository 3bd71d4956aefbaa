// SPDX-License-Identifier: Apache-2.0
#include "proto/capture_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "proto/capture_lock.h"
#include "proto/quiet_signals.h"

namespace uroce::proto {
namespace {

using pcap_format::Format;

constexpr auto kReaderMayCome = std::chrono::seconds(5);
constexpr auto kNap = std::chrono::milliseconds(10);
constexpr int kLookMs = 1;  ///< Between two looks whether the reader has read.
constexpr auto kReaderMayPause = std::chrono::milliseconds(1000);
constexpr int kPipeSize = 1 << 20;  ///< As much as unprivileged users may have: room for bursts, of half the size.
constexpr mode_t kMode = 0666;
constexpr std::size_t kLookBytes = 1 << 16;  ///< What one read of a file looks at.
constexpr std::uint64_t kLittle = 1 << 20;   ///< Bytes of a file that are looked at in less than a millisecond.

/// The error of a read or write that did less than it should: EIO when it does not tell.
int failure(ssize_t done) { return done < 0 ? errno : EIO; }

/// Opens a FIFO once somebody reads it. 0, or an errno value: ENXIO when nobody came.
int open_fifo(const std::string& path, Fd& fd) {
  const auto deadline = std::chrono::steady_clock::now() + kReaderMayCome;
  for (;;) {
    fd = Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd) break;
    if (errno != ENXIO || std::chrono::steady_clock::now() >= deadline) return errno;
    std::this_thread::sleep_for(kNap);
  }
  ::fcntl(fd.get(), F_SETPIPE_SZ, kPipeSize);
  return 0;
}

int write_to_file(int fd, Bytes bytes, std::uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failure(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
  return 0;
}

/// ETIMEDOUT: nobody has read anything for a while.
int write_to_stream(int fd, Bytes bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(written));
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written == 0 || errno != EAGAIN) return failure(written);
    pollfd room{fd, POLLOUT, 0};
    if (::poll(&room, 1, kReaderMayPause.count()) == 0) return ETIMEDOUT;
  }
  return 0;
}

/// How many bytes a pipe takes for sure, however they are cut into writes; 0: it is no pipe. Its pages need not be
/// full, but two that lie together have more than one page, except where it is read from and written to.
std::size_t sure_room(int fd) {
  const int size = ::fcntl(fd, F_GETPIPE_SZ);
  if (size < 0) return 0;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)), half = static_cast<std::size_t>(size) / 2;
  return std::max(half, 2 * page + 1) - 2 * page;
}

/// How many bytes of these records are whole ones that have room together; the first has it if `takes_first`.
std::size_t fitting(Bytes records, std::size_t room, bool takes_first) {
  std::size_t size = 0;
  while (records.size() - size >= pcap_format::kRecordStart) {
    const auto next = pcap_format::read_record(Format::kPcapng, records.subspan(size));
    if (!next || (size + next->size > room && !(takes_first && size == 0))) break;
    size += next->size;
  }
  return size;
}

/// Begins no record that may find no room: a reader that has paused finds whole ones. ETIMEDOUT as above.
int write_to_pipe(int fd, Bytes records, std::size_t room) {
  using Clock = std::chrono::steady_clock;
  int before = -1;
  Clock::time_point latest;
  while (!records.empty()) {
    int unread = 0;
    if (::ioctl(fd, FIONREAD, &unread) != 0) return errno;
    const auto used = static_cast<std::size_t>(unread);
    if (const std::size_t now = fitting(records, room - std::min(room, used), used == 0); now != 0) {
      if (const int error = write_to_stream(fd, records.first(now)); error != 0) return error;
      records = records.subspan(now);
      before = -1;
      continue;
    }
    if (unread != before) {
      before = unread;
      latest = Clock::now() + kReaderMayPause;
    } else if (Clock::now() >= latest) {
      return ETIMEDOUT;
    }
    pollfd left{fd, 0, 0};  // Only to hear that the reader has left.
    if (::poll(&left, 1, kLookMs) > 0) return EPIPE;
  }
  return 0;
}

}  // namespace

CaptureFile::Error CaptureFile::problem(const char* what) const {
  return "can't write the capture " + path_ + ": " + what;
}

CaptureFile::Error CaptureFile::problem(int error) const {
  switch (error) {
    case ENXIO:
      return problem("nobody reads this FIFO; start the reader (wireshark -k -i FIFO, tshark -i FIFO) first");
    case ETIMEDOUT:
      return problem("the reader of this FIFO does not read; end it, or read");
    case EAGAIN:
      return problem("another process that writes it is stopped; end that process (fuser FILE names it)");
    case ENOLCK:
      return problem("its file system has no locks; choose a file in another directory");
    case EACCES:
      return problem("Permission denied: it, or its directory, is another user's; name a file of your own");
    default:
      return problem(std::strerror(error));
  }
}

Result<CaptureFile, std::string> CaptureFile::open(const std::string& path, Start start) {
  CaptureFile file(path);
  struct stat status {};
  int error = 0;
  if (::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode)) {
    error = open_fifo(path, file.fd_);
  } else {
    file.fd_ = Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, kMode));
    if (!file.fd_ || ::fstat(file.fd_.get(), &status) != 0) error = errno;
  }
  if (error == ENXIO && !S_ISFIFO(status.st_mode))
    return Err{*file.problem("a socket, or a device that is not there; name a file or a FIFO")};
  if (error != 0) return Err{*file.problem(error)};
  file.is_stream_ = !S_ISREG(status.st_mode);
  file.format_ = file.is_stream_ || path.ends_with(".pcapng") ? Format::kPcapng : Format::kPcap;
  if (auto wrong = file.begin(start)) return Err{*wrong};
  return file;
}

CaptureFile::Error CaptureFile::begin(Start start) {
  if (is_stream_) {
    pcap_format::put_header(format_, section_);
    const int error = take_place(fd_.get());
    return error != 0 ? problem(error) : std::nullopt;
  }
  if (auto error = begin_file(start)) return error;
  return catch_up();
}

CaptureFile::Error CaptureFile::begin_file(Start start) {
  const QuietSignals quiet;
  const Pen pen(fd_.get());
  if (pen.error() != 0) return problem(pen.error());
  if (start == Start::kAnew && !others_have_places(fd_.get()) && ::ftruncate(fd_.get(), 0) != 0) return problem(errno);
  if (const int error = take_place(fd_.get()); error != 0) return problem(error);
  std::vector<std::uint8_t> header(pcap_format::header_size(format_));
  const ssize_t size = ::pread(fd_.get(), header.data(), header.size(), 0);
  if (size < 0) return problem(errno);
  if (size == 0) {
    header.clear();
    pcap_format::put_header(format_, header);
    end_ = 0;
    if (auto error = add_to_file(header)) return error;
  } else if (!pcap_format::is_header(format_, Bytes(header).first(static_cast<std::size_t>(size)))) {
    return problem("the file holds something else, so the capture can't go on in it; name another file");
  }
  end_ = header.size();
  return {};
}

Result<std::uint32_t, std::string> CaptureFile::add_interface(const std::string& name) {
  if (format_ == Format::kPcap) return std::uint32_t{0};
  std::vector<std::uint8_t> block;
  pcap_format::put_interface(name, block);
  std::uint32_t number = 0;
  if (is_stream_) {
    section_.insert(section_.end(), block.begin(), block.end());
    block = section_;
  }
  const QuietSignals quiet;
  if (auto error = catch_up()) return Err{*error};
  const Pen pen(fd_.get());
  if (pen.error() != 0) return Err{*problem(pen.error())};
  if (!is_stream_) {
    if (auto error = find_end()) return Err{*error};
    number = interfaces_;
  }
  const auto error = is_stream_ ? add_to_stream(block) : add_to_file(block);
  if (error) return Err{*error};
  if (!is_stream_) ++interfaces_;
  return number;
}

CaptureFile::Error CaptureFile::append(Bytes records) {
  const QuietSignals quiet;
  if (auto error = catch_up()) return error;
  const Pen pen(fd_.get());
  if (pen.error() != 0) return problem(pen.error());
  if (!is_stream_) {
    if (auto error = find_end()) return error;
    return add_to_file(records);
  }
  // Others' sections may lie between two batches of ours. (Those of a process that came and went between two of our
  // batches are not noticed: our next packets then look as if they were its own.)
  is_shared_ = is_shared_ || others_have_places(fd_.get());
  if (!is_shared_) return add_to_stream(records);
  std::vector<std::uint8_t> section = section_;
  section.insert(section.end(), records.begin(), records.end());
  return add_to_stream(section);
}

void CaptureFile::leave() {
  if (!fd_ || is_stream_ || catch_up()) return;
  const Pen pen(fd_.get());
  if (pen.error() == 0) static_cast<void>(find_end());  // When even that fails, there is nobody left to tell.
}

/// At `end_`, with the pen in hand.
CaptureFile::Error CaptureFile::add_to_file(Bytes records) {
  if (const int error = write_to_file(fd_.get(), records, end_); error != 0) {
    // Only what there was room for. Who can't is told of the first error.
    [[maybe_unused]] const int cut = ::ftruncate(fd_.get(), static_cast<off_t>(end_));
    return problem(error);
  }
  end_ += records.size();
  return {};
}

CaptureFile::Error CaptureFile::add_to_stream(Bytes records) {
  const std::size_t room = sure_room(fd_.get());
  const int error = room == 0 ? write_to_stream(fd_.get(), records) : write_to_pipe(fd_.get(), records, room);
  return error != 0 ? problem(error) : std::nullopt;
}

/// Has little left to look at with the pen in hand: others would have to wait for it, and give up after a second.
CaptureFile::Error CaptureFile::catch_up() {
  if (is_stream_) return {};
  std::uint64_t from = 0;
  do {
    from = end_;
    if (auto error = look_on()) return error;
  } while (end_ - from > kLittle);  // Others may have appended as long as that took.
  return {};
}

/// Goes over the records that others have appended, as far as they are whole.
CaptureFile::Error CaptureFile::look_on() {
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return problem(errno);
  size_ = static_cast<std::uint64_t>(status.st_size);
  if (size_ < end_) return problem("another program has shortened it");
  std::vector<std::uint8_t> read;
  while (size_ - end_ >= pcap_format::kRecordStart) {
    read.resize(std::min<std::uint64_t>(size_ - end_, kLookBytes));
    const ssize_t got = ::pread(fd_.get(), read.data(), read.size(), static_cast<off_t>(end_));
    if (got < 0) return problem(errno);
    read.resize(static_cast<std::size_t>(got));
    if (read.size() < pcap_format::kRecordStart) return {};  // Somebody has just cut off half a record.
    for (std::size_t at = 0; at <= read.size() - pcap_format::kRecordStart;) {
      const auto record = pcap_format::read_record(format_, Bytes(read).subspan(at));
      if (!record) return problem("another program has written to it");
      if (record->size > size_ - end_) return {};
      at += record->size;
      end_ += record->size;
      if (record->is_section) interfaces_ = 0;
      if (record->is_interface) ++interfaces_;
    }
  }
  return {};
}

/// With the pen in hand: whatever is not a whole record was left by a process that was killed in mid-write.
CaptureFile::Error CaptureFile::find_end() {
  if (auto error = look_on()) return error;
  if (size_ == end_ || ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0) return {};
  return problem(errno);
}

}  // namespace uroce::proto
