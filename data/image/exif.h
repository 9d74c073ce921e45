// The orientation tag of EXIF (CIPA DC-008, 4.6.4): how the stored picture must be turned to be
// upright.
#pragma once

#include "lockstep/data/image/image.h"

#include <cstdint>
#include <span>

namespace lockstep {

/// The orientation, 1 to 8, in a TIFF block (EXIF without its "Exif\0\0"); 1, upright, when there
/// is none or the block makes no sense.
int exif_orientation(std::span<const uint8_t> tiff);

/// Turns `image` as that says. Takes memory for a second image unless it is 1.
void apply_orientation(int orientation, Image& image);

}  // namespace lockstep
