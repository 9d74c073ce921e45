// TF32: whether products of f32 may be rounded. NVIDIA's tensor cores multiply f32 operands with 10
// bits of mantissa (about three decimal digits) where they may, several times as fast as with all
// 23; sums stay f32 in both.
#pragma once

namespace lockstep {

/// Whether f32 matrix products and convolutions on a GPU may use TF32. False until set: f32 then
/// means f32 on every device. CPUs, f64 and bf16 do not ask. Safe from any thread.
bool allow_tf32();
/// For the whole process, from the next operation on, in forward and backward.
void set_allow_tf32(bool allow);

}  // namespace lockstep
