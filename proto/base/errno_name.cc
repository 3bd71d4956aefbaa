// SPDX-License-Identifier: Apache-2.0
#include "proto/base/errno_name.h"

#include <cerrno>

namespace uroce::proto {
namespace {

struct NamedErrno {
  std::string_view name;
  int error;
};

#define UROCE_ERRNO(error) \
  { #error, error }
constexpr NamedErrno kErrnos[] = {UROCE_ERRNO(EPERM),
                                  UROCE_ERRNO(ENOENT),
                                  UROCE_ERRNO(ESRCH),
                                  UROCE_ERRNO(EINTR),
                                  UROCE_ERRNO(EIO),
                                  UROCE_ERRNO(ENXIO),
                                  UROCE_ERRNO(E2BIG),
                                  UROCE_ERRNO(ENOEXEC),
                                  UROCE_ERRNO(EBADF),
                                  UROCE_ERRNO(ECHILD),
                                  UROCE_ERRNO(EAGAIN),
                                  UROCE_ERRNO(ENOMEM),
                                  UROCE_ERRNO(EACCES),
                                  UROCE_ERRNO(EFAULT),
                                  UROCE_ERRNO(ENOTBLK),
                                  UROCE_ERRNO(EBUSY),
                                  UROCE_ERRNO(EEXIST),
                                  UROCE_ERRNO(EXDEV),
                                  UROCE_ERRNO(ENODEV),
                                  UROCE_ERRNO(ENOTDIR),
                                  UROCE_ERRNO(EISDIR),
                                  UROCE_ERRNO(EINVAL),
                                  UROCE_ERRNO(ENFILE),
                                  UROCE_ERRNO(EMFILE),
                                  UROCE_ERRNO(ENOTTY),
                                  UROCE_ERRNO(ETXTBSY),
                                  UROCE_ERRNO(EFBIG),
                                  UROCE_ERRNO(ENOSPC),
                                  UROCE_ERRNO(ESPIPE),
                                  UROCE_ERRNO(EROFS),
                                  UROCE_ERRNO(EMLINK),
                                  UROCE_ERRNO(EPIPE),
                                  UROCE_ERRNO(EDOM),
                                  UROCE_ERRNO(ERANGE),
                                  UROCE_ERRNO(EDEADLK),
                                  UROCE_ERRNO(ENAMETOOLONG),
                                  UROCE_ERRNO(ENOLCK),
                                  UROCE_ERRNO(ENOSYS),
                                  UROCE_ERRNO(ENOTEMPTY),
                                  UROCE_ERRNO(ELOOP),
                                  UROCE_ERRNO(ENOMSG),
                                  UROCE_ERRNO(EIDRM),
                                  UROCE_ERRNO(ECHRNG),
                                  UROCE_ERRNO(EL2NSYNC),
                                  UROCE_ERRNO(EL3HLT),
                                  UROCE_ERRNO(EL3RST),
                                  UROCE_ERRNO(ELNRNG),
                                  UROCE_ERRNO(EUNATCH),
                                  UROCE_ERRNO(ENOCSI),
                                  UROCE_ERRNO(EL2HLT),
                                  UROCE_ERRNO(EBADE),
                                  UROCE_ERRNO(EBADR),
                                  UROCE_ERRNO(EXFULL),
                                  UROCE_ERRNO(ENOANO),
                                  UROCE_ERRNO(EBADRQC),
                                  UROCE_ERRNO(EBADSLT),
                                  UROCE_ERRNO(EBFONT),
                                  UROCE_ERRNO(ENOSTR),
                                  UROCE_ERRNO(ENODATA),
                                  UROCE_ERRNO(ETIME),
                                  UROCE_ERRNO(ENOSR),
                                  UROCE_ERRNO(ENONET),
                                  UROCE_ERRNO(ENOPKG),
                                  UROCE_ERRNO(EREMOTE),
                                  UROCE_ERRNO(ENOLINK),
                                  UROCE_ERRNO(EADV),
                                  UROCE_ERRNO(ESRMNT),
                                  UROCE_ERRNO(ECOMM),
                                  UROCE_ERRNO(EPROTO),
                                  UROCE_ERRNO(EMULTIHOP),
                                  UROCE_ERRNO(EDOTDOT),
                                  UROCE_ERRNO(EBADMSG),
                                  UROCE_ERRNO(EOVERFLOW),
                                  UROCE_ERRNO(ENOTUNIQ),
                                  UROCE_ERRNO(EBADFD),
                                  UROCE_ERRNO(EREMCHG),
                                  UROCE_ERRNO(ELIBACC),
                                  UROCE_ERRNO(ELIBBAD),
                                  UROCE_ERRNO(ELIBSCN),
                                  UROCE_ERRNO(ELIBMAX),
                                  UROCE_ERRNO(ELIBEXEC),
                                  UROCE_ERRNO(EILSEQ),
                                  UROCE_ERRNO(ERESTART),
                                  UROCE_ERRNO(ESTRPIPE),
                                  UROCE_ERRNO(EUSERS),
                                  UROCE_ERRNO(ENOTSOCK),
                                  UROCE_ERRNO(EDESTADDRREQ),
                                  UROCE_ERRNO(EMSGSIZE),
                                  UROCE_ERRNO(EPROTOTYPE),
                                  UROCE_ERRNO(ENOPROTOOPT),
                                  UROCE_ERRNO(EPROTONOSUPPORT),
                                  UROCE_ERRNO(ESOCKTNOSUPPORT),
                                  UROCE_ERRNO(EOPNOTSUPP),
                                  UROCE_ERRNO(EPFNOSUPPORT),
                                  UROCE_ERRNO(EAFNOSUPPORT),
                                  UROCE_ERRNO(EADDRINUSE),
                                  UROCE_ERRNO(EADDRNOTAVAIL),
                                  UROCE_ERRNO(ENETDOWN),
                                  UROCE_ERRNO(ENETUNREACH),
                                  UROCE_ERRNO(ENETRESET),
                                  UROCE_ERRNO(ECONNABORTED),
                                  UROCE_ERRNO(ECONNRESET),
                                  UROCE_ERRNO(ENOBUFS),
                                  UROCE_ERRNO(EISCONN),
                                  UROCE_ERRNO(ENOTCONN),
                                  UROCE_ERRNO(ESHUTDOWN),
                                  UROCE_ERRNO(ETOOMANYREFS),
                                  UROCE_ERRNO(ETIMEDOUT),
                                  UROCE_ERRNO(ECONNREFUSED),
                                  UROCE_ERRNO(EHOSTDOWN),
                                  UROCE_ERRNO(EHOSTUNREACH),
                                  UROCE_ERRNO(EALREADY),
                                  UROCE_ERRNO(EINPROGRESS),
                                  UROCE_ERRNO(ESTALE),
                                  UROCE_ERRNO(EUCLEAN),
                                  UROCE_ERRNO(ENOTNAM),
                                  UROCE_ERRNO(ENAVAIL),
                                  UROCE_ERRNO(EISNAM),
                                  UROCE_ERRNO(EREMOTEIO),
                                  UROCE_ERRNO(EDQUOT),
                                  UROCE_ERRNO(ENOMEDIUM),
                                  UROCE_ERRNO(EMEDIUMTYPE),
                                  UROCE_ERRNO(ECANCELED),
                                  UROCE_ERRNO(ENOKEY),
                                  UROCE_ERRNO(EKEYEXPIRED),
                                  UROCE_ERRNO(EKEYREVOKED),
                                  UROCE_ERRNO(EKEYREJECTED),
                                  UROCE_ERRNO(EOWNERDEAD),
                                  UROCE_ERRNO(ENOTRECOVERABLE),
                                  UROCE_ERRNO(ERFKILL),
                                  UROCE_ERRNO(EHWPOISON)};
constexpr NamedErrno kSecondNames[] = {UROCE_ERRNO(EWOULDBLOCK), UROCE_ERRNO(EDEADLOCK), UROCE_ERRNO(ENOTSUP)};
#undef UROCE_ERRNO

}  // namespace

std::string_view errno_name(int error) {
  for (const NamedErrno& named : kErrnos) {
    if (named.error == error) return named.name;
  }
  return {};
}

std::optional<int> errno_named(std::string_view name) {
  for (const NamedErrno& named : kErrnos) {
    if (named.name == name) return named.error;
  }
  for (const NamedErrno& named : kSecondNames) {
    if (named.name == name) return named.error;
  }
  return std::nullopt;
}

}  // namespace uroce::proto
