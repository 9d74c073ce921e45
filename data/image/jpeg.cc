// JPEG by libjpeg-turbo. The library reports errors by longjmp: between the setjmp and the calls
// that may jump there are no objects with destructors; they live in decode_jpeg's frame, outside.
#include "lockstep/data/image/codecs.h"
#include "lockstep/data/image/exif.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <jpeglib.h>

#include <jerror.h>

namespace lockstep {
namespace {

// A progressive image may hold any number of scans, each of which costs a pass over the whole
// image, in a few bytes; encoders write about ten.
constexpr int kMaxScans = 200;
constexpr size_t kExifPrefix = 6;  // "Exif\0\0"

struct Decoder {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_source_mgr source{};
  jpeg_progress_mgr progress{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";
  bool created = false;
  uint8_t* pixels = nullptr;  // of the image, once the size is known
  uint8_t* cmyk_row = nullptr;
};

[[noreturn]] void fail(Decoder& decoder) { std::longjmp(decoder.jump, 1); }

[[noreturn]] void fail(Decoder& decoder, const char* message) {
  std::snprintf(decoder.message, sizeof decoder.message, "%s", message);
  fail(decoder);
}

Decoder& decoder_of(j_common_ptr info) { return *static_cast<Decoder*>(info->client_data); }

void on_error(j_common_ptr info) {
  Decoder& decoder = decoder_of(info);
  info->err->format_message(info, decoder.message);
  fail(decoder);
}

// Warnings are what the library would make up for; an image with made-up parts is no sample.
// Stray bytes between two markers are harmless, and common.
void on_message(j_common_ptr info, int level) {
  if (level >= 0 || info->err->msg_code == JWRN_EXTRANEOUS_DATA) return;
  on_error(info);
}

void on_progress(j_common_ptr info) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(info);
  if (decompress->input_scan_number > kMaxScans) fail(decoder_of(info), "too many scans");
}

void do_nothing(j_decompress_ptr) {}

boolean at_end(j_decompress_ptr info) {
  fail(decoder_of(reinterpret_cast<j_common_ptr>(info)), "the file ends before the image does");
}

void skip(j_decompress_ptr info, long count) {
  jpeg_source_mgr& source = *info->src;
  if (count <= 0) return;
  if (static_cast<size_t>(count) > source.bytes_in_buffer) at_end(info);
  source.next_input_byte += count;
  source.bytes_in_buffer -= static_cast<size_t>(count);
}

void prepare(Decoder& decoder, std::span<const uint8_t> bytes) {
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.info.client_data = &decoder;
  decoder.source.init_source = do_nothing;
  decoder.source.fill_input_buffer = at_end;
  decoder.source.skip_input_data = skip;
  decoder.source.resync_to_restart = jpeg_resync_to_restart;
  decoder.source.term_source = do_nothing;
  decoder.source.next_input_byte = bytes.data();
  decoder.source.bytes_in_buffer = bytes.size();
  decoder.progress.progress_monitor = on_progress;
}

bool read_header(Decoder& decoder) {
  if (setjmp(decoder.jump) != 0) return false;
  jpeg_create_decompress(&decoder.info);  // clears all of it but `err` and `client_data`
  decoder.created = true;
  decoder.info.src = &decoder.source;
  decoder.info.progress = &decoder.progress;
  jpeg_save_markers(&decoder.info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&decoder.info, TRUE);
  return true;
}

// Adobe's programs, which alone write CMYK in JPEG, store 255 - ink. So a value is the light that
// is left, and the black plane scales it.
void from_inverted_cmyk(const uint8_t* from, uint8_t* to, uint32_t width) {
  for (uint32_t x = 0; x < width; ++x, from += 4) {
    for (int c = 0; c < 3; ++c) {
      const unsigned product = unsigned{from[c]} * from[3];
      *to++ = static_cast<uint8_t>((product + 127) / 255);
    }
  }
}

bool read_pixels(Decoder& decoder) {
  if (setjmp(decoder.jump) != 0) return false;
  jpeg_decompress_struct& info = decoder.info;
  info.out_color_space = decoder.cmyk_row != nullptr ? JCS_CMYK : JCS_RGB;
  // The library's defaults, said aloud: the exact integer transform and smooth upsampling, which is
  // what Pillow uses too.
  info.dct_method = JDCT_ISLOW;
  info.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&info);
  while (info.output_scanline < info.output_height) {
    uint8_t* row = decoder.pixels + size_t{info.output_scanline} * info.output_width * 3;
    JSAMPROW to = decoder.cmyk_row != nullptr ? decoder.cmyk_row : row;
    jpeg_read_scanlines(&info, &to, 1);
    if (decoder.cmyk_row != nullptr) from_inverted_cmyk(to, row, info.output_width);
  }
  return true;
}

int orientation_of(const jpeg_decompress_struct& info) {
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr;
       marker = marker->next) {
    const std::span<const uint8_t> data(marker->data, marker->data_length);
    if (data.size() > kExifPrefix && std::memcmp(data.data(), "Exif\0\0", kExifPrefix) == 0) {
      return exif_orientation(data.subspan(kExifPrefix));
    }
  }
  return 1;
}

struct Destroyer {
  Decoder& decoder;
  ~Destroyer() {
    if (decoder.created) jpeg_destroy_decompress(&decoder.info);
  }
};

}  // namespace

bool is_jpeg(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                 const DecodeOptions& options, Image& image) {
  Decoder decoder;
  const Destroyer destroyer{decoder};
  prepare(decoder, bytes);
  const auto corrupt = [&] {
    return BadImage(str("decode_image: ", name, ": corrupt JPEG: ", decoder.message));
  };
  if (!read_header(decoder)) throw corrupt();
  set_size(decoder.info.image_height, decoder.info.image_width, name, options, image);
  std::vector<uint8_t> cmyk_row;
  if (decoder.info.num_components == 4) {
    cmyk_row.resize(size_t{decoder.info.image_width} * 4);
    decoder.cmyk_row = cmyk_row.data();
  }
  decoder.pixels = image.pixels.data();
  if (!read_pixels(decoder)) throw corrupt();
  apply_orientation(orientation_of(decoder.info), image);
}

}  // namespace lockstep
