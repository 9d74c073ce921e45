// What ops on this thread record, besides NoGrad. Internal to autograd/.
#pragma once

namespace lockstep {

/// While one lives, ops on this thread record which inputs they had, but no backward function and
/// so nothing that it saves: a graph to look at, not to walk backward.
class OutlineOnly {
 public:
  OutlineOnly();
  ~OutlineOnly();
  OutlineOnly(const OutlineOnly&) = delete;
  OutlineOnly& operator=(const OutlineOnly&) = delete;
  static bool active();

 private:
  bool before_;
};

/// The opposite of NoGrad.
class RecordAgain {
 public:
  RecordAgain();
  ~RecordAgain();
  RecordAgain(const RecordAgain&) = delete;
  RecordAgain& operator=(const RecordAgain&) = delete;

 private:
  bool before_;
};

}  // namespace lockstep
