// SPDX-License-Identifier: Apache-2.0
// Calls every function that libibverbs.so.1 exports and every verb that programs reach through a context, with
// arguments as a program would pass them and with some that none should: nothing may crash, and what works must be what
// support.def says. A function in the lists without a call here does not link. What a call does in each situation is
// not asked here: tests/judged/conformance has what the specification says, tests/unit/ibverbs what we promise beyond
// it.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tests/judged/every_verb/lab.h"

namespace uroce::every_verb {

/// Each makes its calls and tells whether the plausible one did what was asked for.
namespace functions {
#define UROCE_VERB(ret, name, params, args, version) bool name(Lab& lab);
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB
}  // namespace functions
namespace ops {
#define UROCE_OP(member, ...) bool member(Lab& lab);
#include "verbs/ibverbs/catalogue/slots.def"
}  // namespace ops
namespace extended {
#define UROCE_EXTENDED(member, ...) bool member(Lab& lab);
#define UROCE_NOT_OFFERED UROCE_EXTENDED
#include "verbs/ibverbs/catalogue/slots.def"
}  // namespace extended
bool builders(Lab& lab);
bool readers(Lab& lab);

namespace {

struct Call {
  std::string_view name;
  bool (*run)(Lab&);
  bool (*is_there)(Lab&);
};

constexpr Call kCalls[] = {
#define UROCE_VERB(ret, name, params, args, version) {#name, functions::name, [](Lab&) { return true; }},
#include "verbs/ibverbs/catalogue/functions.def"
#include "verbs/ibverbs/catalogue/functions_extra.def"
#include "verbs/ibverbs/catalogue/functions_newer.def"
#undef UROCE_VERB
#define UROCE_OP(member, verb, ...) {verb, ops::member, [](Lab& l) { return l.context->ops.member != nullptr; }},
#define UROCE_NOT_OFFERED(member, verb) \
  {verb, extended::member, [](Lab& l) { return verbs_get_ctx(l.context)->member != nullptr; }},
#define UROCE_EXTENDED(member, verb, ...) UROCE_NOT_OFFERED(member, verb)
#include "verbs/ibverbs/catalogue/slots.def"
    {"ibv_wr_*", builders, [](Lab&) { return true; }},
    {"ibv_start_poll ...", readers, [](Lab&) { return true; }},
};

// No member of the structures that slots.def does not name. Besides those: 21 members of ibv_context_ops that only
// libraries from before 2010 call; in verbs_context priv, three placeholders, sz and the context.
constexpr std::size_t kOps = 0
#define UROCE_OP(...) +1
#include "verbs/ibverbs/catalogue/slots.def"
    ;
constexpr std::size_t kExtended = 0
#define UROCE_EXTENDED(...) +1
#define UROCE_NOT_OFFERED UROCE_EXTENDED
#include "verbs/ibverbs/catalogue/slots.def"
    ;
static_assert(sizeof(struct ibv_context_ops) / sizeof(void*) == kOps + 24);
static_assert((sizeof(struct verbs_context) - sizeof(struct ibv_context)) / sizeof(void*) == kExtended + 5);

constexpr std::string_view kNot[] = {
#define UROCE_NOT(name, why) #name,
#define UROCE_PARTLY(name, what)
#define UROCE_NOTE(name, remark)
#include "verbs/ibverbs/catalogue/support.def"
};

bool is_offered(std::string_view name) {
  for (const std::string_view not_offered : kNot) {
    if (name == not_offered) return false;
  }
  return true;
}

int run() {
  int wrong = 0;
  Lab lab;
  for (const Call& call : kCalls) {
    const bool there = call.is_there(lab);
    const bool works = call.run(lab);
    if (works == is_offered(call.name) && there >= works) continue;
    ++wrong;
    std::fprintf(stderr, "%.*s: %s, but support.def says that it %s\n", static_cast<int>(call.name.size()),
                 call.name.data(), works ? "works" : "does not work", works ? "does not" : "does");
  }
  std::printf("%zu verbs called, %d wrong\n", std::size(kCalls), wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace uroce::every_verb

int main() {
  setenv("UROCE_DEVICES", "2", 1);
  return uroce::every_verb::run();
}
