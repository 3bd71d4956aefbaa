// SPDX-License-Identifier: Apache-2.0
// What an MPI job sends over the emulated NIC arrives: every byte is checked. Any number of ranks.
//
//   ring       messages of 0 to 4 MiB around all ranks: eager, rendezvous, many packets
//   allreduce  sums of 1 to 100,000 integers
//   alltoall   blocks of 1 to 50,000 integers
//   one-sided  put, get, fetch_and_op, compare_and_swap
//
// Prints "ok" from rank 0; exit status 1 and a sentence when something is wrong.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, size;

static void wrong(const char* what, long where) {
  fprintf(stderr, "rank %d: %s: wrong at %ld\n", rank, what, where);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static uint8_t byte_of(int sender, size_t length, size_t i) {
  return (uint8_t)(i * 31 + i / 251 + length + (size_t)sender * 17);
}

static void ring(void) {
  const size_t sizes[] = {0, 1, 100, 1023, 8192, 65537, 1u << 20, 4u << 20};
  const size_t largest = sizes[sizeof sizes / sizeof *sizes - 1];
  uint8_t *out = malloc(largest), *in = malloc(largest + 1);
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s) {
    const size_t length = sizes[s];
    for (size_t i = 0; i < length; ++i) out[i] = byte_of(rank, length, i);
    for (size_t i = 0; i <= length; ++i) in[i] = 0xEE;
    MPI_Status status;
    MPI_Sendrecv(out, (int)length, MPI_BYTE, right, 7, in, (int)length, MPI_BYTE, left, 7, MPI_COMM_WORLD, &status);
    int count = -1;
    MPI_Get_count(&status, MPI_BYTE, &count);
    if (count != (int)length) wrong("ring: length", count);
    for (size_t i = 0; i < length; ++i)
      if (in[i] != byte_of(left, length, i)) wrong("ring", (long)i);
    if (in[length] != 0xEE) wrong("ring: behind the end", (long)length);
  }
  free(out);
  free(in);
}

static void allreduce(void) {
  const int counts[] = {1, 1000, 100000};
  for (int c = 0; c < 3; ++c) {
    const int n = counts[c];
    int64_t *mine = malloc((size_t)n * 8), *sum = malloc((size_t)n * 8);
    for (int i = 0; i < n; ++i) mine[i] = (int64_t)i * (rank + 1);
    MPI_Allreduce(mine, sum, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int i = 0; i < n; ++i)
      if (sum[i] != (int64_t)i * size * (size + 1) / 2) wrong("allreduce", i);
    free(mine);
    free(sum);
  }
}

static void alltoall(void) {
  const int counts[] = {1, 500, 50000};
  for (int c = 0; c < 3; ++c) {
    const int n = counts[c];
    int *out = malloc((size_t)n * (size_t)size * sizeof *out), *in = malloc((size_t)n * (size_t)size * sizeof *in);
    for (int to = 0; to < size; ++to)
      for (int i = 0; i < n; ++i) out[to * n + i] = rank * 1000003 + to * 1009 + i;
    MPI_Alltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD);
    for (int from = 0; from < size; ++from)
      for (int i = 0; i < n; ++i)
        if (in[from * n + i] != from * 1000003 + rank * 1009 + i) wrong("alltoall", from * n + i);
    free(out);
    free(in);
  }
}

// Each rank owns a window: a counter, a word to swap, and a block for each rank.
enum { kBlock = 20000, kRounds = 10 };

static void one_sided(void) {
  int64_t* memory = NULL;
  const MPI_Aint bytes = (2 + (MPI_Aint)size * kBlock) * 8;
  MPI_Win window;
  MPI_Win_allocate(bytes, 8, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  for (MPI_Aint i = 0; i < bytes / 8; ++i) memory[i] = -1;
  memory[0] = 0;
  const int to = (rank + 1) % size;
  int64_t* block = malloc(kBlock * 8);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Win_lock_all(0, window);

  for (int i = 0; i < kBlock; ++i) block[i] = (int64_t)rank * kBlock + i;
  MPI_Put(block, kBlock, MPI_INT64_T, to, 2 + (MPI_Aint)rank * kBlock, kBlock, MPI_INT64_T, window);
  MPI_Win_flush(to, window);
  for (int i = 0; i < kBlock; ++i) block[i] = 0;
  MPI_Get(block, kBlock, MPI_INT64_T, to, 2 + (MPI_Aint)rank * kBlock, kBlock, MPI_INT64_T, window);
  MPI_Win_flush(to, window);
  for (int i = 0; i < kBlock; ++i)
    if (block[i] != (int64_t)rank * kBlock + i) wrong("get after put", i);

  int64_t last = -1;
  for (int round = 0; round < kRounds; ++round) {  // A ticket from rank 0: larger each time.
    const int64_t one = 1;
    int64_t ticket = -1;
    MPI_Fetch_and_op(&one, &ticket, MPI_INT64_T, 0, 0, MPI_SUM, window);
    MPI_Win_flush(0, window);
    if (ticket <= last || ticket >= (int64_t)size * kRounds) wrong("fetch_and_op", ticket);
    last = ticket;
  }
  int64_t was = 0;
  const int64_t nobody = -1, me = rank;
  MPI_Compare_and_swap(&me, &nobody, &was, MPI_INT64_T, 0, 1, window);
  MPI_Win_flush(0, window);
  if (was != -1 && (was < 0 || was >= size || was == rank)) wrong("compare_and_swap", was);
  const int first = was == -1;

  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  int winners = 0;
  MPI_Allreduce(&first, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (winners != 1) wrong("compare_and_swap: winners", winners);
  const int from = (rank + size - 1) % size;
  MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, window);
  if (rank == 0 && memory[0] != (int64_t)size * kRounds) wrong("fetch_and_op: sum", memory[0]);
  for (int i = 0; i < kBlock; ++i)
    if (memory[2 + (long)from * kBlock + i] != (int64_t)from * kBlock + i) wrong("put", i);
  MPI_Win_unlock(rank, window);
  free(block);
  MPI_Win_free(&window);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  ring();
  allreduce();
  alltoall();
  one_sided();
  if (rank == 0) printf("ok: %d ranks\n", size);
  MPI_Finalize();
  return 0;
}
