// Lesson 01: read a file through io_uring. Two queues in shared memory: we write submissions (SQEs), the kernel writes
// completions (CQEs). RDMA has the same two queues, so every word here comes back in phase 3.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cinttypes>

#include "tools/learn/ring.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 01_read_file FILE\n");
    return 2;
  }
  const int file = learn::check_errno(open(argv[1], O_RDONLY | O_CLOEXEC), argv[1]);

  // 1. The ring: a submission queue (SQ) of 8 entries, and a completion queue (CQ), twice as long.
  learn::Ring ring(8);
  std::printf("ring: %u submission entries, %u completion entries\n", ring.sq.ring_entries, ring.cq.ring_entries);

  // 2. One submission queue entry says what is to be done: operation, descriptor, buffer, length, offset.
  std::array<char, 64> buffer{};
  io_uring_sqe* sqe = ring.sqe();
  io_uring_prep_read(sqe, file, buffer.data(), buffer.size(), 0);
  // user_data comes back in the completion. It is ours; the kernel does not look at it. (In RDMA: wr_id.)
  io_uring_sqe_set_data64(sqe, 0xC0FFEE);
  std::printf("prepared: %u entry waits in the SQ; the kernel knows nothing of it yet\n", io_uring_sq_ready(&ring));

  // 3. One system call hands over everything that waits.
  const int submitted = learn::check(io_uring_submit(&ring), "io_uring_submit");
  std::printf("submitted: the kernel took %d\n", submitted);

  // 4. The completion queue entry: res is what read() would have returned, or a negative errno.
  io_uring_cqe* cqe = ring.wait();
  std::printf("completed: user_data 0x%" PRIX64 ", res %d\n", uint64_t{cqe->user_data}, cqe->res);
  std::printf("  first bytes: %.30s\n", buffer.data());
  ring.seen(cqe);

  // 5. Four reads, one system call. Completions may come in any order: user_data says which is which.
  std::array<std::array<char, 16>, 4> parts{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sqe = ring.sqe();
    io_uring_prep_read(sqe, file, parts[i].data(), sizeof parts[i], i * sizeof parts[i]);
    io_uring_sqe_set_data64(sqe, i);
  }
  std::printf("four reads: the kernel took %d in one call\n", ring.submit_and_wait(4));
  std::array<int, 4> results{};
  for (int n = 0; n < 4; ++n) {
    cqe = ring.wait();
    results[cqe->user_data] = cqe->res;
    ring.seen(cqe);
  }
  for (std::size_t i = 0; i < results.size(); ++i) std::printf("  read %zu: res %d\n", i, results[i]);

  // 6. A mistake: this descriptor does not exist. Submitting succeeds; the error is in the completion.
  sqe = ring.sqe();
  io_uring_prep_read(sqe, 1000, buffer.data(), buffer.size(), 0);
  std::printf("a bad descriptor: the kernel took %d\n", ring.submit_and_wait(1));
  cqe = ring.wait();
  std::printf("  res %d: %s\n", cqe->res, std::strerror(-cqe->res));
  ring.seen(cqe);
  close(file);
}
