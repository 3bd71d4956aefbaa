// SPDX-License-Identifier: Apache-2.0
// Any bytes as a capture file: what `uroce explain` makes of them ends, tells no packet twice, and is written in every
// form. ICRCs count as right, so that the fuzzer reaches the story and not only the reader.
#include <cstdio>

#include "proto/base/check.h"
#include "tools/explain/words/html.h"
#include "tools/explain/words/json.h"
#include "tools/explain/words/perfetto.h"
#include "tools/explain/words/text.h"

namespace uroce::explain {
namespace {

void explain_bytes(std::vector<std::uint8_t> bytes) {
  BothEnds captures;
  auto capture = Capture::open(Input(std::move(bytes)), "input", 0);
  if (!capture) return;
  captures.add(std::move(*capture));
  static std::FILE* const nowhere = std::fopen("/dev/null", "w");
  UROCE_ASSERT(nowhere != nullptr);
  const Names names(false);
  Text text(nowhere, names, {}, {.packets = true});
  Json json(nowhere, names, {}, true);
  Html page("/dev/null", names, {});
  Perfetto trace("/dev/null", names, {});
  Story story(names);
  std::uint64_t told = 0;
  while (auto packet = captures.next()) {
    if (packet->icrc == Icrc::kWrong) packet->icrc = Icrc::kRight;
    const Told words = story.tell(*packet);
    for (const Finished& message : words.finished) {
      UROCE_ASSERT(message.begin_ns <= message.end_ns);
      trace.finished(message, words.connection, story);
    }
    for (Output* output : std::initializer_list<Output*>{&text, &json, &page, &trace}) {
      output->packet(*packet, words, story);
    }
    ++told;
  }
  story.finish();
  const std::vector<FileFacts> facts = captures.facts();
  UROCE_ASSERT(story.totals().packets == told);
  UROCE_ASSERT(facts.size() == 1 && told <= facts[0].frames);
  text.end(story, facts);
  json.end(story, facts);
  page.end(story, facts);
  trace.end(story, facts);
}

}  // namespace
}  // namespace uroce::explain

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  uroce::explain::explain_bytes({data, data + std::min<std::size_t>(size, 1 << 16)});
  return 0;
}
