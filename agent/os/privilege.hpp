// SPDX-License-Identifier: MIT
#pragma once

namespace andiron::os {

/// Whether this thread has the capability in effect, in whatever user namespace it is: a number of
/// linux/capability.h such as CAP_FOWNER. False too when it cannot be asked.
bool has_effective_capability(unsigned capability);

/// Whether this process is in the machine's own user namespace. In another one (a rootless
/// container) capabilities rule only over what belongs to that namespace.
bool in_first_user_namespace();

/// Whether this process is in the machine's own process namespace, and so may see all processes.
bool in_first_process_namespace();

}  // namespace andiron::os
