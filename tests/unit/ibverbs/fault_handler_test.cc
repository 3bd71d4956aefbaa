// SPDX-License-Identifier: Apache-2.0
// SIGSEGV and SIGBUS stay the program's, whatever it does with them and whenever; and whatever it does, lost memory
// does not kill it. Each test is a process of its own.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "tests/unit/ibverbs/lost_memory.h"

namespace uroce::ibv::test {
namespace {

/// A connected pair whose B has lost memory that A may use.
class Bereft {
 public:
  Bereft() {
    ours_ = v().ibv_reg_mr(p.a.pd, pages_.data(), 2 * kPage, kEveryRight);
    theirs_ = v().ibv_reg_mr(p.b.pd, pages_.data(), 2 * kPage, kEveryRight);
    pages_.lose(TwoPages::Loss::kNoAccess);
  }
  ~Bereft() {
    v().ibv_dereg_mr(ours_);
    v().ibv_dereg_mr(theirs_);
  }
  Bereft(const Bereft&) = delete;
  Bereft& operator=(const Bereft&) = delete;

  /// In the NIC's thread, or in whichever polls.
  bool survives_a_peer(enum ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE) {
    struct ibv_sge sge = p.a.sge(0, 8);
    EXPECT_EQ(post(p.qa.get(), remote_wr(opcode, &sge, pages_.address(kPage), theirs_->rkey)), 0);
    return wait_completion(p.a.send_cq).status == IBV_WC_REM_OP_ERR;
  }
  /// In this thread.
  bool survives_a_post() {
    struct ibv_sge sge {
      pages_.address(kPage), 8, ours_->lkey
    };
    EXPECT_EQ(post(p.qa.get(), remote_wr(IBV_WR_RDMA_WRITE, &sge, p.b.address(), p.b.mr->rkey)), 0);
    return wait_completion(p.a.send_cq).status == IBV_WC_LOC_PROT_ERR;
  }
  /// The program itself touches what is gone.
  void fault() const { *static_cast<volatile std::uint8_t*>(pages_.data() + kPage) = 1; }

  Pair p;

 private:
  TwoPages pages_;
  struct ibv_mr* ours_;
  struct ibv_mr* theirs_;
};

int handled = 0;
sigjmp_buf after_fault;
struct sigaction before_handler;

void leap(int) {
  ++handled;
  siglongjmp(after_fault, 1);
}
void leap_with_info(int signal, siginfo_t* info, void* context) {
  if (signal != SIGSEGV || info->si_code != SEGV_ACCERR || info->si_addr == nullptr || context == nullptr) _exit(3);
  leap(signal);
}
void chain(int signal, siginfo_t* info, void* context) {
  ++handled;
  before_handler.sa_sigaction(signal, info, context);
}

void install(void (*handler)(int), int flags = 0) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}
void install(void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO;
  EXPECT_EQ(sigaction(SIGSEGV, &action, &before_handler), 0);
}

/// Lets the program fault; its handler comes back by a long jump.
void fault_and_come_back(const Bereft& bereft) {
  if (sigsetjmp(after_fault, 1) == 0) bereft.fault();
}

constexpr int kUnexpected = 99;
/// Ends the process of a death test with status 0 if all went as expected.
[[noreturn]] void end(bool as_expected) { std::_Exit(as_expected && !testing::Test::HasFailure() ? 0 : kUnexpected); }

struct FaultHandlerDeathTest : testing::Test {
  FaultHandlerDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

/// How a process ends of its own fault: by the signal, or by what a sanitizer does with it.
bool is_killed_by_fault(int status) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return !WIFEXITED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != kUnexpected);
#else
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
#endif
}

TEST_F(FaultHandlerDeathTest, HandlersFromBeforeUsGetTheProgramsFaultsOnly) {
  const auto body = [] {
    install(leap_with_info);
    Bereft bereft;
    const bool survived = bereft.survives_a_peer() && handled == 0;
    fault_and_come_back(bereft);
    fault_and_come_back(bereft);
    end(survived && handled == 2);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(FaultHandlerDeathTest, HandlersFromAfterUsGetTheProgramsFaultsOnly) {
  for (const enum ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    const auto body = [opcode] {
      Bereft bereft;
      install(leap);
      const bool survived = bereft.survives_a_peer(opcode) && handled == 0;
      fault_and_come_back(bereft);
      fault_and_come_back(bereft);
      end(survived && handled == 2);
    };
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
  }
}

TEST_F(FaultHandlerDeathTest, AHandlerThatPutsOursBackLeavesUsAtWork) {
  const auto body = [] {
    Bereft bereft;
    install(chain);
    EXPECT_EQ(sigaction(SIGSEGV, &before_handler, nullptr), 0);
    end(bereft.survives_a_peer() && handled == 0);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

TEST_F(FaultHandlerDeathTest, AHandlerThatCallsOursDiesOfTheProgramsFault) {
  const auto body = [] {
    Bereft bereft;
    install(chain);
    if (!bereft.survives_a_peer() || handled != 0) end(false);
    bereft.fault();
    end(false);
  };
  EXPECT_EXIT(body(), is_killed_by_fault, "");
}

TEST_F(FaultHandlerDeathTest, WithoutAHandlerTheProgramsFaultKillsIt) {
  const auto body = [] {
    Bereft bereft;
    if (!bereft.survives_a_peer()) end(false);
    bereft.fault();
    end(false);
  };
  EXPECT_EXIT(body(), is_killed_by_fault, "");
}

TEST_F(FaultHandlerDeathTest, WithoutAHandlerASignalThatIsSentKills) {
  const auto body = [] {
    const Bereft bereft;
    ::raise(SIGSEGV);
    end(false);
  };
  EXPECT_EXIT(body(), is_killed_by_fault, "");
}

TEST_F(FaultHandlerDeathTest, WhatIsIgnoredIsIgnoredWhenSentAndKillsAsAFault) {
  const auto body = [] {
    install(SIG_IGN);
    Bereft bereft;
    ::raise(SIGSEGV);
    if (!bereft.survives_a_peer()) end(false);
    bereft.fault();
    end(false);
  };
  EXPECT_EXIT(body(), is_killed_by_fault, "");
}

TEST_F(FaultHandlerDeathTest, AHandlerForOneFaultGetsOne) {
  const auto body = [] {
    install(leap, static_cast<int>(SA_RESETHAND));
    Bereft bereft;
    if (!bereft.survives_a_peer()) end(false);
    fault_and_come_back(bereft);
    if (handled != 1) end(false);
    fault_and_come_back(bereft);
    end(false);
  };
  EXPECT_EXIT(body(), is_killed_by_fault, "");
}

TEST_F(FaultHandlerDeathTest, ThreadsThatBlockAllSignalsSurviveLostMemory) {
  const auto body = [] {
    bool survived = true;
    std::thread([&] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      survived = Bereft().survives_a_post();
      for (const enum ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        survived = survived && Bereft().survives_a_peer(opcode);
      }
    }).join();
    end(survived);
  };
  EXPECT_EXIT(body(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace uroce::ibv::test
