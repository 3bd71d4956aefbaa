// SPDX-License-Identifier: Apache-2.0
// Builds a parsed message of connection management again, field by field.
#pragma once

#include "proto/cm/message.h"
#include "tests/unit/proto/reencode.h"

namespace uroce::proto::test {

template <class M>
void copy_message(const cm::MessageView& from, cm::MessageBuilder& to) {
  if (from.attribute() == M::kAttribute) copy_fields<M>(from.as<M>(), to.as<M>(), typename M::All{});
}

inline std::vector<std::uint8_t> reencode(const cm::MessageView& message) {
  std::vector<std::uint8_t> out(cm::kMadSize, 0xEE);
  cm::MessageBuilder builder(out, message.attribute(), 0);
  copy_fields<cm::Mad>(message.mad(), builder.mad(), cm::Mad::All{});
  copy_message<cm::Req>(message, builder);
  copy_message<cm::Mra>(message, builder);
  copy_message<cm::Rej>(message, builder);
  copy_message<cm::Rep>(message, builder);
  copy_message<cm::Rtu>(message, builder);
  copy_message<cm::Dreq>(message, builder);
  copy_message<cm::Drep>(message, builder);
  copy_message<cm::SidrReq>(message, builder);
  copy_message<cm::SidrRep>(message, builder);
  copy_message<cm::Lap>(message, builder);
  copy_message<cm::Apr>(message, builder);
  std::copy(message.additional_info().begin(), message.additional_info().end(), builder.additional_info().begin());
  std::copy(message.private_data().begin(), message.private_data().end(), builder.private_data().begin());
  return out;
}

}  // namespace uroce::proto::test
