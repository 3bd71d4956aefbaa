// SPDX-License-Identifier: Apache-2.0
// The conformance table: what the NIC does in each case, who says that it should, and what Linux's Soft-RoCE does. One
// row is one Case: the test measures it and compares, docs/conformance.md is printed from it. What only our
// implementation promises is in tests/unit/ibverbs; whether every exported function survives nonsense, in
// tests/judged/every_verb.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace uroce::conformance {

/// What is supposed to happen, and who says so. A clause with "?" is our reading; nothing confirmed its number.
struct Rule {
  const char* text;
  const char* source;
};

/// How ours relates to what rxe does.
enum class Relation {
  kSame,
  kSpecification,  ///< rxe departs from the specification, or from what a verb promises: ours does not.
  kChoice,         ///< Both are right: a limit, a rounding, a refusal that comes earlier.
  kNotOffered,     ///< The NIC does not have the object. docs/verbs.md lists these.
  kNoNetdev,       ///< The NIC is a process with UDP sockets: there is no netdev behind it.
};

struct Why {
  Relation relation;
  const char* reason;  ///< Empty for kSame and nothing else.
};

inline constexpr Why kSame{Relation::kSame, ""};
constexpr Why specification(const char* reason) { return {Relation::kSpecification, reason}; }
constexpr Why choice(const char* reason) { return {Relation::kChoice, reason}; }
inline constexpr Why kFlushed{Relation::kSpecification,
                              "rxe's QP goes to ERR first, and the flush overwrites the status"};
inline constexpr Why kNotOffered{Relation::kNotOffered, "not offered yet ([verbs.md](verbs.md))"};
constexpr Why no_netdev(const char* reason) { return {Relation::kNoNetdev, reason}; }

struct Case {
  std::string name;
  Rule rule;
  std::string ours;  ///< What measure() returns.
  std::string rxe;   ///< Kernel 6.12, rdma-core 44, in the same words.
  Why why;
  std::function<std::string()> measure;  ///< Does it, on two NICs of this process.
};

/// Cases of one subject. `id` names its test.
struct Chapter {
  const char* id;
  const char* title;
  std::vector<Case> cases;
};

Chapter qp_states();          // qp_states.cc
Chapter qp_attributes();      // qp_attributes.cc
Chapter posting_by_state();   // posting_by_state.cc
Chapter work_requests();      // work_requests.cc
Chapter queues_and_keys();    // queues_and_keys.cc
Chapter datagrams();          // datagrams.cc
Chapter completion_queues();  // completion_queues.cc
Chapter life_cycle();         // life_cycle.cc
Chapter memory_windows();     // memory_windows.cc
Chapter memory_regions();     // memory_regions.cc
Chapter capacities();         // capacities.cc
Chapter port();               // port.cc

/// All chapters, in the order of the document.
const std::vector<Chapter>& table();

}  // namespace uroce::conformance
