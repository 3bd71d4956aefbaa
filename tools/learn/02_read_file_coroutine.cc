// Lesson 02: the same reads, awaited. A coroutine stops at co_await and leaves its handle in user_data; the loop that
// takes completions resumes it. No callbacks, no threads.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <coroutine>
#include <cstdint>
#include <exception>

#include "tools/learn/ring.h"

namespace {

/// What a co_await on an operation of the ring does. Lives in the coroutine's frame while that sleeps.
class Operation {
 public:
  explicit Operation(io_uring_sqe* sqe) : sqe_(sqe) {}
  // Never ready at once: the kernel has to see it first.
  bool await_ready() const noexcept { return false; }
  // Called when the coroutine has stopped: from now on a completion may resume it.
  void await_suspend(std::coroutine_handle<> waiting) noexcept {
    waiting_ = waiting;
    io_uring_sqe_set_data(sqe_, this);
  }
  // What the whole co_await expression is worth.
  int await_resume() const noexcept { return result_; }

  /// Called by the loop.
  void complete(int result) {
    result_ = result;
    waiting_.resume();
  }

 private:
  io_uring_sqe* sqe_;
  std::coroutine_handle<> waiting_;
  int result_ = 0;
};

/// A coroutine that starts at once and frees itself at its end: enough for a lesson.
struct Task {
  struct promise_type {  // NOLINT(readability-identifier-naming): the name that the language wants.
    Task get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
};

Operation read_at(learn::Ring& ring, int file, std::array<char, 16>& into, std::uint64_t offset) {
  io_uring_sqe* sqe = ring.sqe();
  io_uring_prep_read(sqe, file, into.data(), sizeof into, offset);
  return Operation(sqe);
}

/// Three reads that follow one another, written as if they were blocking.
Task read_three(learn::Ring& ring, int file, int name, int& running) {
  ++running;
  std::array<char, 16> buffer{};
  int bytes = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    std::printf("reader %d: awaits read %d\n", name, static_cast<int>(i));
    bytes += co_await read_at(ring, file, buffer, i * sizeof buffer);
  }
  std::printf("reader %d: done, %d bytes\n", name, bytes);
  --running;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 02_read_file_coroutine FILE\n");
    return 2;
  }
  const int file = learn::check_errno(open(argv[1], O_RDONLY | O_CLOEXEC), argv[1]);
  learn::Ring ring(8);

  // Both run until their first co_await. Nothing has been submitted.
  int running = 0;
  read_three(ring, file, 1, running);
  read_three(ring, file, 2, running);

  // The loop: submit what the coroutines have prepared, take completions, resume. One system call for all readers.
  int calls = 0;
  while (running > 0) {  // NOLINT(bugprone-infinite-loop): the coroutines count it down.
    const int taken = ring.submit_and_wait(static_cast<unsigned>(running));
    std::printf("loop: call %d handed over %d reads\n", ++calls, taken);
    for (int n = 0; n < taken; ++n) {
      io_uring_cqe* cqe = ring.wait();
      auto* operation = static_cast<Operation*>(io_uring_cqe_get_data(cqe));
      const int result = cqe->res;
      ring.seen(cqe);  // Before the coroutine goes on: it may want the place.
      operation->complete(result);
    }
  }
  std::printf("six reads, %d system calls\n", calls);
  close(file);
}
