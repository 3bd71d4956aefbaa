// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/flight_recorder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <new>

#include "engine/os/namespaces.h"
#include "engine/os/os_clock.h"
#include "proto/address.h"
#include "proto/quiet_signals.h"
#include "verbs/ibverbs/host/bound_ports.h"
#include "verbs/ibverbs/host/published_memory.h"
#include "verbs/nic/model/qp_state.h"
#include "verbs/record/store.h"
#include "verbs/record/text_field.h"

namespace uroce::ibv {
namespace {

using namespace std::chrono_literals;

constexpr Duration kBetweenSaves = 1s;
/// The memory's name, where it is no file.
constexpr const char* kPublished = "uroce-flight";
constexpr int kNamesMost = 100;  ///< Of files, of which that many are there already.

std::string program() { return program_invocation_short_name; }

/// The NIC does not hear that a port is closed (its socket has many peers), so the kernel is asked, about peers on this
/// machine.
void look_at_ports(record::Recording& recording) {
  if (recording.qps.empty()) return;
  const std::vector<BoundPort> ports = bound_udp_ports(proto::kRocePort);
  std::map<std::string, bool> closed;  // By address.
  for (auto& [qpn, qp] : recording.qps) {
    const auto address = proto::parse_gid(qp.peer);
    if (!address) continue;
    const auto [known, fresh] = closed.try_emplace(qp.peer, false);
    if (fresh) known->second = !is_bound_here(*address, ports).value_or(true);
    qp.port_closed = known->second;
  }
}

/// A file for the memory, STEM.ring; locked for as long as the process lives. `path`: its name. Another name if it is
/// there: a process with this number was killed, or lives in another container.
Result<engine::Fd, std::string> make_file(const std::string& stem, std::string& path) {
  const proto::QuietSignals quiet;
  engine::Fd fd;
  for (int nth = 1; !fd && nth <= kNamesMost; ++nth) {
    path = stem + (nth == 1 ? "" : "-" + std::to_string(nth)) + std::string(record::kRingSuffix);
    fd = engine::Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd && errno != EEXIST) break;
  }
  // Its pages must be there: a full disk would be a SIGBUS for the program later.
  int error = errno;
  if (fd) {
    do error = ::posix_fallocate(fd.get(), 0, sizeof(record::Ring));
    while (error == EINTR);
  }
  if (error != 0) {
    if (fd) ::unlink(path.c_str());
    return Err{"UROCE_RECORD: can't write " + path + ": " + std::strerror(error) + "; each NIC needs " +
               std::to_string(sizeof(record::Ring) >> 10) + " KiB there: make room, or name another directory"};
  }
  while (::flock(fd.get(), LOCK_EX) != 0 && errno == EINTR) {  // A reader of left rings has it for a moment.
  }
  return fd;
}

/// To add to times of the NIC: since 1970. Somebody may set the wall clock, so as late as possible.
std::int64_t wall_offset_now() {
  return engine::wall_clock_now().count() - engine::os_now().time_since_epoch().count();
}

}  // namespace

Result<std::unique_ptr<FlightRecorder>, std::string> FlightRecorder::make(std::uint32_t index,
                                                                          const proto::Gid& address,
                                                                          const std::string& directory) {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  std::error_code error;
  const std::string folder = directory.empty() ? "" : std::filesystem::absolute(directory, error).string();
  void* memory = MAP_FAILED;
  engine::Fd fd;
  std::string file;
  if (!folder.empty()) {
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
      return Err{"UROCE_RECORD: can't make the directory " + folder + ": " + std::strerror(errno) +
                 "; name one that you can make, or that is there"};
    }
    record::remove_old_rings(folder);
    auto made = make_file(folder + '/' + record::stem_of(program(), pid, index), file);
    if (!made.ok()) return Err{made.error()};
    fd = std::move(*made);
    memory = ::mmap(nullptr, sizeof(record::Ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  } else {
    fd = publish_memory(kPublished, sizeof(record::Ring), &memory);
  }
  if (!fd || memory == MAP_FAILED) {  // Nobody else sees it then.
    memory = ::mmap(nullptr, sizeof(record::Ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return Err{std::string("no memory for the last events of the NIC")};
  }
  auto* const ring = static_cast<record::Ring*>(memory);
  ring->magic = record::Ring::kMagic;
  ring->pid = pid;
  ring->nic = index;
  ring->wall_offset_ns = wall_offset_now();
  ring->keeps_packets = folder.empty() ? 0 : 1;
  record::set_text(ring->program, program());
  record::set_text(ring->address, proto::to_string(address));
  return std::unique_ptr<FlightRecorder>(new FlightRecorder(std::move(fd), ring, folder, std::move(file)));
}

FlightRecorder::FlightRecorder(engine::Fd memory, record::Ring* ring, std::string directory, std::string file)
    : memory_(std::move(memory)),
      ring_(ring),
      writer_(*ring),
      directory_(std::move(directory)),
      file_(std::move(file)) {}

FlightRecorder::~FlightRecorder() {
  if (wanted_ != nullptr && !directory_.empty()) save();
  leave();
  ::munmap(ring_, sizeof(record::Ring));
}

void FlightRecorder::on_event(const nic::TraceEvent& event) {
  writer_.add(event, phase_);
  if (qps_ != nullptr) qps_->on_event(event);
  if (tell_reason_) {
    try {
      reasons_.on_event(event, phase_);
    } catch (const std::bad_alloc&) {  // The capture does without. What the event is about must go on.
    }
  }
  if (event.kind == nic::TraceKind::kSendFailed) on_error("a completion with an error");
  if (event.kind == nic::TraceKind::kDeviceFatal) on_error("IBV_EVENT_DEVICE_FATAL");
  // UC and UD: only the sending half breaks.
  const bool is_sqe = event.b == static_cast<std::uint64_t>(nic::QpState::kSqe);
  if (event.kind == nic::TraceKind::kState && is_sqe) on_error("a completion with an error: the QP is in SQE");
}

record::Recording FlightRecorder::read() const {
  record::Recording recording = record::read_ring(*ring_);
  recording.wall_offset_ns = wall_offset_now();
  if (qps_ != nullptr) recording.qps = qps_->peers();
  if (port_ != nullptr) {
    const engine::PortCounters counters = port_->counters();
    recording.refusals = {.count = counters.send_errors, .last_error = counters.last_send_error};
  }
  if (faults_ != nullptr) recording.on_purpose = faults_->kept_back();
  look_at_ports(recording);
  return recording;
}

void FlightRecorder::save_soon() {
  if (directory_.empty()) {
    wanted_ = nullptr;
    return;
  }
  const Instant now = engine::os_now();
  if (now < next_save_) return;
  next_save_ = now + kBetweenSaves;
  save();
}

void FlightRecorder::save() {
  const char* const why = std::exchange(wanted_, nullptr);
  // Nobody can be told of an error on the way to the disk; the program goes on. So it does without memory.
  try {
    static_cast<void>(record::save(read(), why, directory_));
  } catch (const std::bad_alloc&) {
  }
}

void FlightRecorder::leave() {
  if (!file_.empty()) ::unlink(std::exchange(file_, {}).c_str());
}

void FlightRecorder::abandon() {
  file_.clear();
  wanted_ = nullptr;
  directory_.clear();
  qps_ = nullptr;
  ask(nullptr, nullptr);
  memory_ = engine::Fd{};
  // The lock lasts for as long as anybody has the file open, or mapped: others would take the parent's ring for that of
  // a living process after its end.
  static_cast<void>(
      ::mmap(ring_, sizeof(record::Ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

std::optional<std::string> FlightRecorder::last_cause() const {
  const auto cause = record::last_cause(read());
  return cause ? std::optional(cause->sentence) : std::nullopt;
}

std::vector<record::Recording> rings_of(std::uint32_t pid) {
  const std::string memory = std::string(kMemoryPrefix) + kPublished;
  const auto holds_ring = [&memory](const std::string& name) {
    return name.starts_with(memory) || record::is_ring(name);
  };
  std::vector<record::Recording> found;
  for_each_open_file(pid, holds_ring, [&found, pid](int file, std::uint32_t /*pid*/) {
    auto recording = record::read_ring_file(file);
    if (!recording) return;
    if (engine::shares_namespace(pid, "time") == true) recording->wall_offset_ns = wall_offset_now();
    found.push_back(std::move(*recording));
  });
  return found;
}

}  // namespace uroce::ibv
