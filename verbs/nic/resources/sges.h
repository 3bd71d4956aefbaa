// SPDX-License-Identifier: Apache-2.0
// Copies between packets and scatter/gather lists. Each piece is resolved through the MR table at the moment of the
// copy, so a region that was deregistered in the meantime is never touched. Its memory may be gone all the same.
#pragma once

#include "verbs/nic/resources/mr_table.h"

namespace uroce::nic {

/// Bytes that a list describes.
std::uint64_t total_length(std::span<const Sge> sges);

/// Fills `out` with the bytes from `offset` on of what `sges` describe (local read). False: a key, PD or bound was
/// wrong, or the memory is gone; `out` may be partly written. Continues `crc` (proto/crc32.h) with these bytes,
/// unless it is null.
bool gather(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges, std::uint64_t offset, MutBytes out,
            std::uint32_t* crc);

/// Writes `in` to the memory of `sges` from `offset` on (local write). The caller has checked that it fits. Nothing is
/// written when any piece is refused; when memory is gone, what comes before it is written.
bool scatter(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges, std::uint64_t offset, Bytes in);

/// Why gather() (`rights` 0) or scatter() (kLocalWrite) fails for the whole list; nothing: the memory is gone.
std::optional<RefusedKey> refused_key(const MrTable& mrs, const Pd* pd, std::span<const Sge> sges,
                                      std::uint32_t rights);

}  // namespace uroce::nic
