// SPDX-License-Identifier: Apache-2.0
#include "verbs/ibverbs/host/published_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>

#include "proto/base/directory.h"
#include "proto/base/spread.h"
#include "proto/quiet_signals.h"

namespace uroce::ibv {

std::string published_name(const std::string& kind, const std::string& name) {
  return "uroce-" + kind + '-' + std::to_string(spread(name + "/" UROCE_VERSION));
}

engine::Fd publish_memory(const std::string& published, std::size_t size, void** memory) {
  engine::Fd fd(::memfd_create(published.c_str(), MFD_CLOEXEC));
  const proto::QuietSignals quiet;  // Without room for it under RLIMIT_FSIZE, others do not see it.
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return {};
  *memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  return *memory == MAP_FAILED ? engine::Fd{} : std::move(fd);
}

void for_each_published(const std::string& published, const std::function<void(int, std::uint32_t)>& see) {
  const std::string link = std::string(kMemoryPrefix) + published + " (deleted)";
  for_each_open_file(
      0, [&link](const std::string& name) { return name == link; }, see);
}

void for_each_open_file(std::uint32_t only_pid, const std::function<bool(const std::string& name)>& wanted,
                        const std::function<void(int, std::uint32_t)>& see) {
  std::set<std::pair<dev_t, ino_t>> seen;  // A child of fork() has its parent's open as well.
  std::error_code error;
  for (const auto& process : entries_of("/proc", error)) {
    const std::string pid = process.path().filename().string();
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (only_pid != 0 && pid != std::to_string(only_pid)) continue;
    for (const auto& file : entries_of(process.path() / "fd", error)) {
      if (!wanted(std::filesystem::read_symlink(file.path(), error).string())) continue;
      const engine::Fd memory(::open(file.path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
      struct stat status {};
      if (!memory || ::fstat(memory.get(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
      if (seen.insert({status.st_dev, status.st_ino}).second) {
        see(memory.get(), static_cast<std::uint32_t>(std::stoul(pid)));
      }
    }
  }
}

}  // namespace uroce::ibv
