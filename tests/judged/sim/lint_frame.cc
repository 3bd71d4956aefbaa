// SPDX-License-Identifier: Apache-2.0
#include "tests/judged/sim/lint_frame.h"

#include "proto/icrc.h"
#include "proto/rules/rules.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

void check_frame(const proto::PacketView& view, const proto::Path& path) {
  proto::rules::check_packet(view, [](const proto::rules::Breach& breach) { incorrect("{}", breach.text); });
  const Bytes covered = view.bytes().first(view.bytes().size() - proto::kIcrcSize);
  if (proto::icrc(path, covered) != view.icrc()) incorrect("the ICRC is wrong");
}

}  // namespace uroce::simulator
