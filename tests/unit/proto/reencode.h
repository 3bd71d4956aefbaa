// SPDX-License-Identifier: Apache-2.0
// Builds a parsed packet again, field by field, through PacketBuilder.
#pragma once

#include <tuple>
#include <vector>

#include "proto/icrc.h"
#include "proto/packet.h"

namespace uroce::proto::test {

template <class H, class... Fs>
void copy_fields(ConstView<H> from, MutView<H> to, Fields<Fs...>) {
  (to.template set<Fs>(from.template get<Fs>()), ...);
}

template <class H>
void copy_header(const PacketView& from, PacketBuilder& to) {
  if (from.has<H>()) copy_fields<H>(from.header<H>(), to.header<H>(), typename H::All{});
}

/// The same packet from its parts. Pad bytes that are not zero, which the builder never writes, are put in by hand; so
/// is the ICRC, as the builder knows only IPv4 ID 0.
inline std::vector<std::uint8_t> reencode(const PacketView& packet, const Path& path, std::uint16_t ip_id) {
  std::vector<std::uint8_t> out(packet.bytes().size() + 8, 0xEE);
  PacketBuilder builder(out, packet.op().code);
  const MutBytes payload = builder.payload(packet.payload().size());
  std::copy(packet.payload().begin(), packet.payload().end(), payload.begin());
  copy_header<Bth>(packet, builder);
  copy_header<Deth>(packet, builder);
  copy_header<Reth>(packet, builder);
  copy_header<AtomicEth>(packet, builder);
  copy_header<Aeth>(packet, builder);
  copy_header<AtomicAckEth>(packet, builder);
  copy_header<ImmDt>(packet, builder);
  copy_header<Ieth>(packet, builder);
  copy_header<CnpPad>(packet, builder);
  copy_header<Feth>(packet, builder);
  out.resize(builder.finish(path));
  const std::size_t covered = out.size() - kIcrcSize;
  std::copy(packet.pad().begin(), packet.pad().end(),
            out.begin() + static_cast<std::ptrdiff_t>(covered - packet.pad().size()));
  store_icrc(MutBytes(out).last(kIcrcSize), icrc(path, Bytes(out).first(covered), ip_id));
  return out;
}

}  // namespace uroce::proto::test
