// SPDX-License-Identifier: Apache-2.0
// What goes wrong on the caller's side: an errno value for the program, a sentence for the person.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace uroce::ibv {

/// Why the last verb that failed in this thread did so, as a sentence for people; empty when there is nothing to say
/// beyond errno. Verbs that succeed leave it alone, as they do errno.
std::string last_error();

/// Remembers `sentence`, up to 1023 bytes of it, as this thread's last_error() and returns `error`, a positive errno
/// value. It is in errno, too: on cards the system call leaves it there, and programs print that one (perftest; UCX:
/// %m), not what the verb returned.
int refuse(int error, std::string_view sentence);

/// refuse(), for settings in the environment that make no sense. Programs that know plain verbs only would say nothing
/// but that there is no device: after explain_settings() the sentence goes to stderr as well.
int refuse_setting(int error, const std::string& sentence);
void explain_settings();
/// Has refuse() say each sentence on stderr, too, unless it is the thread's last one: programs try again.
void explain_refusals(bool wanted);
/// While one lives, this thread's are not said: what is tried may fail.
class SilentRefusals {
 public:
  SilentRefusals();
  ~SilentRefusals();
  SilentRefusals(const SilentRefusals&) = delete;
  SilentRefusals& operator=(const SilentRefusals&) = delete;
};
/// The same for what goes wrong later and fails no call.
void warn(const std::string& sentence);

/// refuse() for verbs that return a pointer: returns null.
std::nullptr_t refuse_null(int error, std::string_view sentence);

/// For verbs on a NIC that had a fatal error, or that a child of fork() inherited: EIO.
int refuse_without_nic();

}  // namespace uroce::ibv
