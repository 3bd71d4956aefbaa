#include "verbs/ibverbs/capture.h"

#include <unistd.h>

#include <map>
#include <mutex>

#include "verbs/ibverbs/environment.h"

namespace uroce::ibv {

Result<proto::PcapWriter, std::string> open_capture(const std::string& file) {
  static std::mutex mutex;
  static std::map<std::string, pid_t> begun;  // And by whom: a forked child inherits this.
  const std::scoped_lock lock(mutex);
  const auto found = begun.find(file);
  const bool is_parents = found != begun.end() && found->second != getpid();
  const std::string own = is_parents ? marked_file(file, '.' + std::to_string(getpid())) : file;
  if (begun.contains(own) && access(own.c_str(), F_OK) == 0) return proto::PcapWriter::resume(own);
  auto writer = proto::PcapWriter::create(own);
  if (writer.ok()) begun[own] = getpid();
  return writer;
}

}  // namespace uroce::ibv
