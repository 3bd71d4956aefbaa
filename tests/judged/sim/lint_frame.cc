#include "tests/judged/sim/lint_frame.h"

#include <algorithm>

#include "proto/icrc.h"
#include "tests/judged/sim/violation.h"

namespace uroce::simulator {

using proto::Bth;

void check_frame(const proto::PacketView& view, const proto::Path& path) {
  const auto bth = view.bth();
  if (bth.get<Bth::PKey>() != 0xFFFF) incorrect("P_Key 0x{:x}", bth.get<Bth::PKey>());
  if (bth.get<Bth::MigReq>() || bth.get<Bth::Fecn>() || bth.get<Bth::Becn>() || bth.get<Bth::Resv6>() ||
      bth.get<Bth::Resv7>()) {
    incorrect("reserved bits, MigReq, FECN or BECN are set");
  }
  const Bytes pad = view.pad();
  if (pad.size() > 3 || std::any_of(pad.begin(), pad.end(), [](std::uint8_t b) { return b != 0; })) {
    incorrect("pad is not 0 to 3 bytes of zero");
  }
  const Bytes covered = view.bytes().first(view.bytes().size() - proto::kIcrcSize);
  if (proto::icrc(path, covered) != view.icrc()) incorrect("the ICRC is wrong");
}

}  // namespace uroce::simulator
