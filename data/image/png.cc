// PNG by libpng. The library reports errors by longjmp: between the setjmp and the calls that may
// jump there are no objects with destructors; they live in decode_png's frame, outside.
#include "lockstep/data/image/codecs.h"
#include "lockstep/data/image/exif.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>

namespace lockstep {
namespace {

constexpr uint64_t kMaxDeflateRatio = 1032;           // what one byte of deflate can hold at most
constexpr png_alloc_size_t kMaxChunkBytes = 1 << 20;  // of a text or profile, decompressed
constexpr png_uint_32 kMaxSide = 0x7fffffff;          // the format's own; set_size() limits

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const uint8_t> rest;
  char message[160] = "";
  uint8_t* pixels = nullptr;
  size_t row_bytes = 0;  // of the output
  png_bytepp rows = nullptr;
  int passes = 1;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  Decoder& decoder = *static_cast<Decoder*>(png_get_error_ptr(png));
  std::snprintf(decoder.message, sizeof decoder.message, "%s", message);
  png_longjmp(png, 1);
}

// Warnings are about chunks that are not looked at: text, profiles, time stamps.
void on_warning(png_structp, png_const_charp) {}

void read(png_structp png, png_bytep to, size_t count) {
  Decoder& decoder = *static_cast<Decoder*>(png_get_io_ptr(png));
  if (count > decoder.rest.size()) png_error(png, "the file ends before the image does");
  std::copy_n(decoder.rest.begin(), count, to);
  decoder.rest = decoder.rest.subspan(count);
}

bool read_header(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_read_fn(decoder.png, &decoder, read);
  png_set_user_limits(decoder.png, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(decoder.png, kMaxChunkBytes);
  png_set_chunk_cache_max(decoder.png, 32);
  png_read_info(decoder.png, decoder.info);
  return true;
}

// Everything to 8-bit RGB; alpha is dropped, not blended.
bool set_conversions(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_set_expand(decoder.png);  // palettes, fewer than 8 bits, a transparent colour
  png_set_scale_16(decoder.png);
  png_set_gray_to_rgb(decoder.png);
  png_set_strip_alpha(decoder.png);
  decoder.passes = png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  decoder.row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  return true;
}

bool read_pixels(Decoder& decoder) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;
  png_read_image(decoder.png, decoder.rows);
  png_read_end(decoder.png, decoder.info);  // checks the last CRC, finds an eXIf behind the pixels
  return true;
}

int orientation_of(const Decoder& decoder) {
  png_bytep exif = nullptr;
  png_uint_32 count = 0;
  if (png_get_eXIf_1(decoder.png, decoder.info, &count, &exif) == 0) return 1;
  return exif_orientation({exif, count});
}

struct Destroyer {
  Decoder& decoder;
  ~Destroyer() { png_destroy_read_struct(&decoder.png, &decoder.info, nullptr); }
};

uint32_t big_endian(const uint8_t* p) {
  return uint32_t{p[0]} << 24 | uint32_t{p[1]} << 16 | uint32_t{p[2]} << 8 | uint32_t{p[3]};
}

// IHDR is the first chunk, so the size can be judged before the library sees the file.
void check_header(std::span<const uint8_t> bytes, const std::string& name,
                  const DecodeOptions& options, Image& image) {
  constexpr size_t kHeader = 8 + 8 + 13 + 4;
  if (bytes.size() < kHeader || std::memcmp(bytes.data() + 12, "IHDR", 4) != 0) {
    throw BadImage(str("decode_image: ", name, ": corrupt PNG: no IHDR chunk"));
  }
  const uint64_t width = big_endian(bytes.data() + 16), height = big_endian(bytes.data() + 20);
  // At least one bit a pixel and one byte a row.
  const uint64_t least = height * std::max<uint64_t>(1, width / 8) / kMaxDeflateRatio;
  if (height * width <= static_cast<uint64_t>(options.max_pixels) && least > bytes.size()) {
    throw BadImage(str("decode_image: ", name, ": corrupt PNG: the header announces ", width, " x ",
                       height, " pixels, more than ", bytes.size(), " bytes can hold"));
  }
  set_size(height, width, name, options, image);
}

}  // namespace

bool is_png(std::span<const uint8_t> bytes) {
  return bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0;
}

void decode_png(std::span<const uint8_t> bytes, const std::string& name,
                const DecodeOptions& options, Image& image) {
  check_header(bytes, name, options, image);
  Decoder decoder;
  decoder.rest = bytes;
  const Destroyer destroyer{decoder};
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw std::bad_alloc();
  const auto corrupt = [&] {
    return BadImage(str("decode_image: ", name, ": corrupt PNG: ", decoder.message));
  };
  if (!read_header(decoder) || !set_conversions(decoder)) throw corrupt();
  if (decoder.row_bytes != static_cast<size_t>(image.width) * 3) {
    throw BadImage(str("decode_image: ", name, ": corrupt PNG: rows of ", decoder.row_bytes,
                       " bytes for ", image.width, " pixels"));
  }
  std::vector<png_bytep> rows(static_cast<size_t>(image.height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = image.pixels.data() + y * decoder.row_bytes;
  decoder.rows = rows.data();
  if (!read_pixels(decoder)) throw corrupt();
  apply_orientation(orientation_of(decoder), image);
}

}  // namespace lockstep
