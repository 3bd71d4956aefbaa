// SPDX-License-Identifier: Apache-2.0
// Seeds of fuzz_cm: connections of each kind from beginning to end, refusals, and messages out of turn. And one message
// of each kind from the captures, for fuzz_parse.
#include <map>

#include "proto/cm/message.h"
#include "proto/frame.h"
#include "tests/judged/fuzz/cm_commands.h"
#include "tests/judged/fuzz/seeds.h"
#include "tests/unit/proto/golden.h"

namespace uroce::fuzz {
namespace {

enum Call : std::uint8_t {
  kAccept,
  kReject,
  kDisconnect,
  kDestroy,
  kEstablish,
  kConnectActive,
  kSidrRequest,
  kSidrReply,
  kNotify,
  kFetched,
  kListenAgain,
  kData,
};
enum Message : std::uint8_t { kReq, kMra, kRej, kRep, kRtu, kDreq, kDrep, kSidrReq, kSidrRep, kLap, kApr };

class CmSeed {
 public:
  CmSeed& message(std::uint8_t attribute, CmMessageSpec spec = {}, const std::vector<std::uint8_t>& patches = {}) {
    spec.attribute = attribute;
    return add(kCmMessage, spec, patches);
  }
  CmSeed& call(std::uint8_t what, std::uint8_t ours = 0, std::uint8_t value = 0) {
    return add(kCmCall, CmCallSpec{what, ours, value});
  }
  CmSeed& time(std::uint8_t log2_ms) { return add(kCmTime, CmTimeSpec{log2_ms}); }
  const std::vector<std::uint8_t>& bytes() const { return writer_.bytes; }

 private:
  template <class Spec>
  CmSeed& add(std::uint8_t command, Spec spec, const std::vector<std::uint8_t>& more = {}) {
    Writer body;
    spec.fields(body);
    body.bytes.insert(body.bytes.end(), more.begin(), more.end());
    writer_.bytes.push_back(command);
    writer_.bytes.push_back(static_cast<std::uint8_t>(body.bytes.size()));
    writer_.bytes.insert(writer_.bytes.end(), body.bytes.begin(), body.bytes.end());
    return *this;
  }
  Writer writer_;
};

}  // namespace

void add_cm_seeds(std::vector<Seed>& seeds) {
  const auto add = [&seeds](const char* name, const CmSeed& seed) { seeds.push_back({"cm", name, seed.bytes()}); };
  add("good_passive", CmSeed().message(kReq).call(kAccept).message(kRtu).message(kDreq).call(kDisconnect).time(10));
  add("good_active",
      CmSeed().call(kConnectActive).message(kRep).call(kEstablish).call(kDisconnect).message(kDrep).time(10));
  add("good_uc", CmSeed().message(kReq, {.service = 1}).call(kAccept).call(kData).message(kDreq).call(kDestroy));
  add("good_sidr", CmSeed().message(kSidrReq, {.service = 2}).call(kSidrReply).message(kSidrReq, {.service = 2}));
  add("good_sidr_active", CmSeed().call(kSidrRequest).message(kSidrRep).call(kDestroy));
  add("duplicates", CmSeed()
                        .message(kReq)
                        .message(kReq)
                        .call(kAccept)
                        .message(kReq)
                        .message(kMra, {}, {8, 0x40})
                        .time(17)
                        .message(kRtu)
                        .message(kRtu));
  add("crossing", CmSeed().message(kReq).call(kAccept).message(kRtu).call(kDisconnect).message(kDreq).message(kDrep));
  add("orphan", CmSeed().message(kReq).call(kAccept).message(kRtu).call(kDestroy).message(kDreq).time(255).time(255));
  add("rejects", CmSeed().message(kReq).message(kRej, {.ours = 255}).call(kConnectActive).message(kRej).call(kReject));
  add("stale", CmSeed().message(kReq).call(kAccept).message(kRtu).message(kReq, {.sender_id = 1}));
  add("nobody", CmSeed().message(kReq, {.service = 9}).message(kDreq, {.ours = 255}).message(kLap).message(kApr));
  add("strangers", CmSeed().message(kReq).call(kAccept).message(kRtu, {.source = 1}).message(kDreq, {.source = 1}));
  add("backlog", CmSeed().message(kReq).message(kReq, {.sender_id = 1, .qpn = 1}).call(kFetched).call(kListenAgain));

  std::map<std::string_view, const std::vector<std::uint8_t>*> first;
  for (const auto& golden : proto::test::connection_frames()) {
    const auto frame = proto::parse_frame(golden.bytes);
    const auto packet = frame ? proto::parse_packet(frame->packet) : Err{proto::ParseError::kTooShort};
    if (!packet) continue;
    if (const auto message = proto::cm::parse_message(*packet)) {
      first.try_emplace(message->info().name, &golden.bytes);
    }
  }
  for (const auto& [name, bytes] : first) seeds.push_back({"parse", "cm_" + std::string(name), *bytes});
}

}  // namespace uroce::fuzz
