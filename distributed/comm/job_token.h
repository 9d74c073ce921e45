// The secret that the ranks of a job share, so that no stranger can join.
#pragma once

#include "lockstep/distributed/comm/environment.h"

#include <string>

namespace lockstep {

/// The value of LOCKSTEP_TOKEN; else the first line of the file that LOCKSTEP_TOKEN_FILE names,
/// which must be readable by its owner only (mode 0600); else a secret made from `job`'s name and
/// this user's own secret, user_secret(): it is another one for each job, and does not tell the
/// user's. Throws ArgumentError with the remedy.
std::string job_token(const std::string& job, const Environment& env = process_environment());

/// Where a user's secret lies: lockstep/token in XDG_CONFIG_HOME, or in .config of HOME. Empty:
/// neither is set.
std::string user_secret_path(const Environment& env);

/// What is in that file, which is made when it is missing (folder 0700, file 0600); of processes
/// that come at once all get the same. Throws ArgumentError if it cannot be made or belongs to
/// another user.
std::string user_secret(const Environment& env);

/// A new secret of 32 hexadecimal digits from the system's random source.
std::string make_job_token();

}  // namespace lockstep
