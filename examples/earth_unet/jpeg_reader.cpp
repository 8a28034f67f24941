#include "jpeg_reader.hpp"

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// jpeglib.h needs FILE and size_t from above.
#include <jpeglib.h>

#include "area_average.hpp"

namespace earth {
namespace {

// libjpeg reports errors by callback and must not be unwound by a C++ exception, so the callback jumps out of the
// library and the exception is thrown here, outside it. Nothing with a destructor lives between the two.
class JpegDecoder {
 public:
  explicit JpegDecoder(const std::filesystem::path& path) : path_(path), file_(std::fopen(path.c_str(), "rb")) {
    if (!file_) throw std::runtime_error("cannot open " + path.string() + ": it is not there or may not be read");
    decoder_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = [](j_common_ptr info) { leave(info); };
    errors_.base.emit_message = [](j_common_ptr info, int level) {
      // Level -1 is damage that libjpeg would paint over in grey, such as a file that ends early.
      if (level < 0) leave(info);
    };
    guarded([this] {
      jpeg_create_decompress(&decoder_);
      jpeg_stdio_src(&decoder_, file_.get());
      jpeg_read_header(&decoder_, TRUE);
      decoder_.out_color_space = JCS_RGB;
      jpeg_start_decompress(&decoder_);
    });
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&decoder_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  Grid size() const { return {decoder_.output_height, decoder_.output_width}; }
  void skip_lines(std::int64_t count) {
    guarded([this, count] { jpeg_skip_scanlines(&decoder_, static_cast<JDIMENSION>(count)); });
  }
  void read_line(std::uint8_t* line) {
    guarded([this, line] {
      JSAMPROW rows[] = {line};
      jpeg_read_scanlines(&decoder_, rows, 1);
    });
  }

 private:
  struct Errors {
    jpeg_error_mgr base;  // first, so that a pointer to it is a pointer to this
    std::jmp_buf jump;
    char message[JMSG_LENGTH_MAX];
  };
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  [[noreturn]] static void leave(j_common_ptr info) {
    auto* errors = reinterpret_cast<Errors*>(info->err);
    errors->base.format_message(info, errors->message);
    std::longjmp(errors->jump, 1);
  }
  template <class Call>
  void guarded(Call call) {
    if (setjmp(errors_.jump) != 0) {
      jpeg_destroy_decompress(&decoder_);  // may be repeated by the destructor
      throw std::runtime_error(path_.string() + " is not a whole JPEG image: " + errors_.message);
    }
    call();
  }

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  Errors errors_{};
  jpeg_decompress_struct decoder_{};
};

}  // namespace

Planes read_jpeg(const std::filesystem::path& file, Grid grid, Box box) {
  JpegDecoder decoder(file);
  AreaAverage average(decoder.size(), grid, box, 3, 1.0 / 255.0);
  std::vector<std::uint8_t> line(static_cast<std::size_t>(3 * decoder.size().width));
  decoder.skip_lines(average.first_row());
  for (std::int64_t row = average.first_row(); row < average.end_row(); ++row) {
    decoder.read_line(line.data());
    average.add_row(row, line);
  }
  return std::move(average).finish();
}

}  // namespace earth
