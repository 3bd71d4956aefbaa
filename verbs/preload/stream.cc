// SPDX-License-Identifier: Apache-2.0
// fseek(3) and its kin: where a stream reads its file again from the beginning, the file is made anew, as with
// lseek(2), which libc calls for them by another name.
#include <cerrno>
#include <cstdio>

#include "verbs/preload/export.h"
#include "verbs/preload/next.h"
#include "verbs/preload/node_fd.h"

using namespace uroce::preload;

/// Some streams have no file, which is no error.
static void refresh_file_of(FILE* stream) {
  const int error = errno;
  const int descriptor = ::fileno(stream);
  errno = error;
  if (descriptor >= 0) refresh(descriptor);
}

// NOLINTBEGIN(cppcoreguidelines-macro-usage): functions that differ in their names only.
#define UROCE_FSEEK(name, Offset)                                                  \
  UROCE_EXPORT int name(FILE* stream, Offset offset, int whence) {                 \
    const int status = UROCE_NEXT(name)(stream, offset, whence);                   \
    if (status == 0 && offset == 0 && whence == SEEK_SET) refresh_file_of(stream); \
    return status;                                                                 \
  }
UROCE_FSEEK(fseek, long)
UROCE_FSEEK(fseeko, off_t)
UROCE_FSEEK(fseeko64, off64_t)
// NOLINTEND(cppcoreguidelines-macro-usage)

UROCE_EXPORT void rewind(FILE* stream) {
  UROCE_NEXT(rewind)(stream);
  refresh_file_of(stream);
}
