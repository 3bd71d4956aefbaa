// SPDX-License-Identifier: Apache-2.0
// For writing seeds: inputs of the fuzz targets in the terms of their commands.
#pragma once

#include <string>

#include "proto/opcodes.h"
#include "tests/judged/fuzz/nic_commands.h"

namespace uroce::fuzz {

struct Seed {
  std::string target;  ///< "responder"
  std::string name;    ///< The file's.
  std::vector<std::uint8_t> bytes;
};

/// An input of fuzz_responder or fuzz_requester.
class NicSeed {
 public:
  explicit NicSeed(Setup setup = {}) { setup.fields(writer_); }
  template <class Spec>
  NicSeed& add(int command, Spec spec, const std::vector<std::uint8_t>& patches = {}) {
    Writer body;
    spec.fields(body);
    body.bytes.insert(body.bytes.end(), patches.begin(), patches.end());
    if (patches.empty()) {
      while (!body.bytes.empty() && body.bytes.back() == 0) body.bytes.pop_back();
    }
    return add_bytes(command, body.bytes);
  }
  NicSeed& add_bytes(int command, const std::vector<std::uint8_t>& body) {
    writer_.bytes.push_back(static_cast<std::uint8_t>(command));
    writer_.bytes.push_back(static_cast<std::uint8_t>(body.size()));
    writer_.bytes.insert(writer_.bytes.end(), body.begin(), body.end());
    return *this;
  }
  NicSeed& packet(proto::Opcode opcode, PacketSpec spec = {}, const std::vector<std::uint8_t>& patches = {}) {
    spec.opcode = static_cast<std::uint8_t>(opcode);
    return add(kPacket, spec, patches);
  }
  NicSeed& honest(std::uint8_t more = 0, std::uint8_t syndrome = 0) {
    return add(kHonest, HonestSpec{0, more, syndrome});
  }
  NicSeed& again(std::uint8_t back = 0) { return add(kAgain, AgainSpec{back}); }
  NicSeed& time(std::uint8_t log2_us = 0) { return add(kTime, TimeSpec{log2_us}); }

  const std::vector<std::uint8_t>& bytes() const { return writer_.bytes; }

 private:
  Writer writer_;
};

void add_parse_seeds(std::vector<Seed>& seeds);
void add_responder_seeds(std::vector<Seed>& seeds);
void add_requester_seeds(std::vector<Seed>& seeds);
void add_api_seeds(std::vector<Seed>& seeds);
void add_explain_seeds(std::vector<Seed>& seeds);
void add_cm_seeds(std::vector<Seed>& seeds);  ///< For `cm`, and messages for `parse`.
void add_ring_seeds(std::vector<Seed>& seeds);
void add_golden_seeds(std::vector<Seed>& seeds);

}  // namespace uroce::fuzz
