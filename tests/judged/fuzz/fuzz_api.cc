// SPDX-License-Identifier: Apache-2.0
// A program that makes any calls of the verbs in any order: see api_program.h. The first byte says whether it starts
// with two connected QPs.
#include "tests/judged/fuzz/api_program.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace uroce::fuzz;
  constexpr int kMaxCalls = 200;
  Reader in(uroce::Bytes(data, size));
  ApiProgram program;
  if (in.get<std::uint8_t>() % 2 == 0) program.make_pair();
  for (int i = 0; i < kMaxCalls; ++i) {
    const auto record = next_record(in);
    if (!record) break;
    program.call(static_cast<ApiCall>(record->kind % kApiCalls), Reader(record->body));
  }
  return 0;
}
