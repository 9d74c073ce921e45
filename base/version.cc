#include "lockstep/base/version.h"

#include "lockstep/base/build_commit.h"

namespace lockstep {

const char* version() { return LOCKSTEP_VERSION; }
const char* build_commit() { return kBuildCommit; }

}  // namespace lockstep
