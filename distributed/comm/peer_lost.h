// The words by which a group's error says that another rank is to blame, not this one. The launcher
// looks for them.
#pragma once

namespace lockstep::comm {

inline constexpr const char* kPeerLost = "a peer was lost or is late";

}  // namespace lockstep::comm
