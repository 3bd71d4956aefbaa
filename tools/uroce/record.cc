// SPDX-License-Identifier: Apache-2.0
// What the flight recorder of another process holds, as files.
#include <fmt/core.h>
#include <sys/stat.h>

#include "tools/output/print.h"
#include "tools/uroce/commands.h"
#include "verbs/ibverbs/host/flight_recorder.h"
#include "verbs/record/store.h"

namespace uroce::tools {

int record(std::uint32_t pid, const std::string& directory) {
  const std::vector<uroce::record::Recording> recordings = ibv::rings_of(pid);
  if (pid == 0 || recordings.empty()) {
    print_to(stderr, "uroce: process {} has no NIC of this build of uroce open, or we may not look into it\n", pid);
    return 1;
  }
  ::mkdir(directory.c_str(), 0777);  // If it can't be made, writing to it will say why.
  for (const uroce::record::Recording& recording : recordings) {
    // The directory is any one that was named, of which we remove nothing.
    const auto saved =
        uroce::record::save(recording, "asked for by `uroce record`", directory, uroce::record::Keep::kAll);
    if (!saved.ok()) {
      print_to(stderr, "uroce: {}\n", saved.error());
      return 1;
    }
    print_to(stdout, "{}: {} events and {} packets of uroce{}\n", *saved, recording.events.size(),
             recording.packets.size(), recording.nic);
    if (!recording.keeps_packets) {
      print_to(stdout,
               "  packets are kept only by NICs that were opened with UROCE_RECORD, or under uroce run --record\n");
    }
  }
  return 0;
}

}  // namespace uroce::tools
