// Trainer: ending before its time, and saving by the clock.
#include "lockstep/train/trainer.h"

namespace lockstep {

bool Trainer::agreement_due() {
  if (parts_.asked_to_stop == nullptr && !save_timer_.on()) return false;
  // Ranks that train each by itself meet at the log intervals only, and are not made to meet more
  // often.
  return parts_.ddp.communicates() ? agreement_.due()
                                   : (position_.step + 1) % options_.log_interval == 0;
}

StepRequest Trainer::wishes() const {
  StepRequest mine;
  if (parts_.asked_to_stop != nullptr) mine.stop_signal = parts_.asked_to_stop();
  // One clock decides; two would ask for two checkpoints, a step apart.
  if (parts_.group.rank() == 0) mine.save = save_timer_.due() ? 1 : 0;
  return mine;
}

void Trainer::stop(int signal) {
  stopped_by_ = signal;
  // There may be no time for it now. That of an epoch's end needs no mark: the position tells.
  evaluation_owed_ = evaluation_due();
  save(/*best=*/false);
}

}  // namespace lockstep
